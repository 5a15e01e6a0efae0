//! Names of kinds, objects, namespaces and contexts, read while the user waits for a completion.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser;
use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use depguard_kcp::KubeconfigNames;
use serde_json::Value;

use super::candidates::Subject;
use crate::cluster::files::FileArgs;
use crate::cluster::kinds::resource_name;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::{Terminal, one_line};
use crate::options::Global;

/// Time after which nothing is completed. Whoever doesn't want to wait as long ends the completion by Ctrl-C.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Limit on names; nobody reads more.
const MAX_NAMES: usize = 1000;

/// Flags of the typed line that choose where to read.
#[derive(Debug, Parser)]
struct ChosenSource {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    files: FileArgs,
}

/// Names, each with its description.
type Names = BTreeMap<String, String>;

/// Reads the names of the subject. Where they can't be read in time, there are none: a shell shows no errors.
pub(super) async fn read(subject: &Subject, flags: &[String]) -> Names {
    let words = ["kubectl-depguard"].into_iter().chain(flags.iter().map(String::as_str));
    let Ok(chosen) = ChosenSource::try_parse_from(words) else { return Names::new() };
    let names = tokio::time::timeout(MAX_WAIT, names(subject, &chosen)).await;
    let names = names.ok().and_then(Result::ok).unwrap_or_default();
    names.into_iter().map(|(name, about)| (one_line(&name), one_line(&about))).collect()
}

async fn names(subject: &Subject, ChosenSource { global, files }: &ChosenSource) -> Result<Names, Failure> {
    let nameless = |names: Vec<String>| names.into_iter().map(|name| (name, String::new())).collect();
    let kubeconfig = || {
        let options = global.connect_options(ControlPlane::Kubernetes)?;
        KubeconfigNames::read(&options).map_err(Failure::new)
    };
    Ok(match subject {
        Subject::Packs => RulePack::all().iter().map(|pack| (pack.name.to_owned(), pack.protects.to_owned())).collect(),
        Subject::Contexts => nameless(kubeconfig()?.contexts),
        Subject::Clusters => nameless(kubeconfig()?.clusters),
        Subject::Users => nameless(kubeconfig()?.users),
        Subject::Kinds => {
            let (source, _) = open(global, files).await?;
            let kinds =
                source.kinds().await?.iter().map(|kind| {
                    (resource_name(kind.gvr.resource.as_str(), kind.gvr.group.as_str()), kind.kind.clone())
                });
            kinds.collect()
        }
        Subject::Namespaces => namespaces(global, files).await?,
        Subject::Objects(kind) => {
            let (source, terminal) = open(global, files).await?;
            let kind = source.kind(kind).await?;
            let namespace = source.scope(global)?;
            let mut names = Names::new();
            source.objects(&kind, namespace.as_ref(), &terminal, |object| add_name(&mut names, &object)).await?;
            names
        }
    })
}

async fn namespaces(global: &Global, files: &FileArgs) -> Result<Names, Failure> {
    let (source, terminal) = open(global, files).await?;
    let mut names = Names::new();
    if let Source::Manifests(manifests) = &source {
        let own = manifests.objects().iter().filter_map(|object| object.namespace());
        return Ok(own.map(|name| (name.to_owned(), String::new())).collect());
    }
    let kind = source.kind("namespaces").await?;
    source.objects(&kind, None, &terminal, |object| add_name(&mut names, &object)).await?;
    Ok(names)
}

/// Opens the files or the API server, with a terminal that nobody sees.
async fn open(global: &Global, files: &FileArgs) -> Result<(Source, Terminal), Failure> {
    let (mut terminal, _) = Terminal::captured("");
    Ok((Source::open(global, files, &mut terminal).await?, terminal))
}

fn add_name(names: &mut Names, object: &Value) {
    if let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str).filter(|_| names.len() < MAX_NAMES) {
        names.insert(name.to_owned(), String::new());
    }
}
