//! Objects that the command line names.

use crate::cluster::kinds::KindInfo;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::options::Global;

use super::target::Target;

/// Objects as people name them: `vpc a b`, `vpc/a subnet/b`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TargetArgs {
    /// Objects: KIND NAME..., or KIND/NAME...; a kind is vpc, vpcs, VPC, a short name, vpcs.network.example.com or
    /// vpcs.v1.network.example.com
    #[arg(value_name = "OBJECT", required = true)]
    words: Vec<String>,
}

/// Objects that exist, and the messages about those that do not.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pub(super) found: Vec<Target>,
    pub(super) missing: Vec<String>,
}

impl TargetArgs {
    /// Returns kind and name of each object, each object once.
    fn named(&self) -> Result<Vec<(&str, &str)>, Failure> {
        let wrong = || {
            Failure::new("no object is named").hint("write KIND NAME... or KIND/NAME..., as in `vpc a b` or `vpc/a`")
        };
        let (first, rest) = self.words.split_first().ok_or_else(wrong)?;
        let mut named: Vec<(&str, &str)> = if first.contains('/') {
            self.words.iter().map(|word| word.split_once('/').ok_or_else(wrong)).collect::<Result<_, _>>()?
        } else {
            rest.iter().map(|name| (first.as_str(), name.as_str())).collect()
        };
        let is_wrong = |(kind, name): &(&str, &str)| kind.is_empty() || name.is_empty() || name.contains('/');
        if named.is_empty() || named.iter().any(is_wrong) {
            return Err(wrong());
        }
        let mut seen = Vec::new();
        named.retain(|object| {
            let is_new = !seen.contains(object);
            seen.push(*object);
            is_new
        });
        Ok(named)
    }

    /// Reads the objects.
    pub(super) async fn read(&self, source: &Source, global: &Global) -> Result<Targets, Failure> {
        let mut targets = Targets::default();
        for (named, name) in self.named()? {
            let kind = source.kind(named).await?;
            match read(source, &kind, name, global).await? {
                Ok(target) => targets.found.push(target),
                Err(message) => targets.missing.push(message),
            }
        }
        Ok(targets)
    }
}

/// Reads one object; the inner error says that it does not exist.
async fn read(
    source: &Source,
    kind: &KindInfo,
    name: &str,
    global: &Global,
) -> Result<Result<Target, String>, Failure> {
    if global.all_namespaces && kind.namespaced != Some(false) {
        return Err(Failure::new(format!(
            "-A does not say which object is meant: {} are in namespaces",
            kind.gvr.resource
        ))
        .hint("name its namespace with --namespace instead of --all-namespaces"));
    }
    let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
    Ok(match source.object(kind, namespace.as_ref(), name).await? {
        Some(object) => Ok(Target::new(kind, object)),
        None => {
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            Err(format!("there is no {}/{name}{place}", kind.gvr.group_resource()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_takes_them() {
        for (words, expected) in [
            ("vpc a", Some(vec![("vpc", "a")])),
            ("vpc a b a", Some(vec![("vpc", "a"), ("vpc", "b")])),
            ("vpc/a subnet/b", Some(vec![("vpc", "a"), ("subnet", "b")])),
            ("vpc", None),
            ("vpc/a b", None),
            ("vpc a/b", None),
            ("vpc a subnet/b", None),
            ("/a", None),
            ("vpc/", None),
            ("vpc/a/b", None),
        ] {
            let args = TargetArgs { words: words.split(' ').map(str::to_owned).collect() };
            assert_eq!(args.named().ok(), expected, "{words}");
        }
    }
}
