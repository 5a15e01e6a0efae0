//! The chart as helm renders it.

use std::path::PathBuf;

use depguard_e2e::tools::Tools;
use depguard_e2e::{Outcome, Stop};
use serde_json::Value;

/// Namespace for which the controller's `manifests` are printed.
pub(crate) const NAMESPACE: &str = "depguard-system";

/// Host name of the webhook's Service.
pub(crate) const WEBHOOK_HOST: &str = "depguard-webhook.depguard-system.svc";

/// The chart, and the tools that render it.
pub(crate) struct Chart {
    pub(crate) tools: Tools,
    pub(crate) folder: PathBuf,
}

impl Chart {
    pub(crate) fn new(tools: Tools) -> Chart {
        Chart { tools, folder: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../charts/depguard") }
    }

    /// Renders the chart with these values, and with settings such as `webhook.replicas=3`, as text.
    pub(crate) fn render(&self, namespace: &str, values: &str, settings: &[&str]) -> Outcome<String> {
        self.helm(&["template", "depguard"], namespace, values, settings)
    }

    /// Renders the chart likewise, as objects.
    pub(crate) fn objects(&self, namespace: &str, values: &str, settings: &[&str]) -> Outcome<Vec<Value>> {
        parse(&self.render(namespace, values, settings)?)
    }

    /// Runs a helm command on the chart with these values and settings, and returns helm's output.
    pub(crate) fn helm(&self, command: &[&str], namespace: &str, values: &str, settings: &[&str]) -> Outcome<String> {
        let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
        std::fs::write(file.path(), values)?;
        let (chart, file) = (self.folder.to_string_lossy(), file.path().to_string_lossy());
        let settings = settings.iter().flat_map(|setting| ["--set-json", setting]);
        let given = [&chart, "--namespace", namespace, "--values", &file];
        self.tools.helm(&command.iter().copied().chain(given).chain(settings).collect::<Vec<_>>())
    }
}

/// Parses the objects of a YAML stream.
pub(crate) fn parse(text: &str) -> Outcome<Vec<Value>> {
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|why| Stop::Failed(format!("{why}: {text}")))?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// Returns the only object with this kind and name; fails if there is none or more than one.
pub(crate) fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> Outcome<&'a Value> {
    let found: Vec<_> =
        objects.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name).collect();
    match found[..] {
        [object] => Ok(object),
        _ => Err(Stop::Failed(format!("there are {} objects {kind} {name}", found.len()))),
    }
}
