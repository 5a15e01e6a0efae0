//! Objects that the command line names by kind and name.

use std::sync::Arc;

use depguard_core::model::Namespace;
use serde_json::Value;

use crate::cluster::kinds::KindInfo;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::options::Global;

/// Objects as people name them: `vpc a b`, `vpc,subnet a`, `vpc/a subnet/b`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NamedObjectsArgs {
    /// Objects: KIND NAME..., KIND,KIND NAME... or KIND/NAME...; a kind is vpc, vpcs, VPC, a short name,
    /// vpcs.network.example.com or vpcs.v1.network.example.com
    #[arg(value_name = "OBJECT", required = true)]
    words: Vec<String>,
}

/// Object that a user named.
pub(crate) struct NamedObject {
    pub(crate) kind: KindInfo,
    /// Namespace in which it was looked for; `None` for a kind without namespaces, and perhaps for one of unknown scope.
    pub(crate) namespace: Option<Namespace>,
    /// Name as the user wrote it.
    pub(crate) name: String,
    pub(crate) object: Arc<Value>,
}

/// Objects that a user named: those that exist, and a failure for each that does not.
pub(crate) struct NamedObjects {
    pub(crate) found: Vec<NamedObject>,
    pub(crate) missing: Vec<Failure>,
}

impl NamedObjectsArgs {
    /// Takes the words of a command that also has words of another meaning.
    pub(crate) fn from_words(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    /// Reads the objects.
    pub(crate) async fn read(&self, source: &Source, global: &Global) -> Result<NamedObjects, Failure> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (named, name) in self.named()? {
            let kind = source.kind(named).await?;
            match NamedObject::read(source, kind, name, global).await? {
                Ok(object) => found.push(object),
                Err(failure) => missing.push(failure),
            }
        }
        Ok(NamedObjects { found, missing })
    }

    /// Returns kind and name of each object, each object once.
    fn named(&self) -> Result<Vec<(&str, &str)>, Failure> {
        let wrong = || {
            Failure::new("no object is named").hint("write KIND NAME... or KIND/NAME..., as in `vpc a b` or `vpc/a`")
        };
        let (first, rest) = self.words.split_first().ok_or_else(wrong)?;
        let mut named: Vec<(&str, &str)> = if first.contains('/') {
            self.words.iter().map(|word| word.split_once('/').ok_or_else(wrong)).collect::<Result<_, _>>()?
        } else {
            let of_kind = |kind| rest.iter().map(move |name| (kind, name.as_str()));
            first.split(',').flat_map(of_kind).collect()
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
}

impl NamedObject {
    /// Reads one object; the inner error says that it does not exist.
    async fn read(
        source: &Source,
        kind: KindInfo,
        name: &str,
        global: &Global,
    ) -> Result<Result<Self, Failure>, Failure> {
        let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
        if namespace.is_none() && kind.namespaced != Some(false) {
            let resource = &kind.gvr.resource;
            return Err(Failure::new(format!("-A does not say which object is meant: {resource} are in namespaces"))
                .hint("name its namespace with --namespace instead of --all-namespaces"));
        }
        Ok(match source.object(&kind, namespace.as_ref(), name).await? {
            Some(object) => Ok(Self { kind, namespace, name: name.to_owned(), object }),
            None => {
                let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
                Err(Failure::new(format!("there is no {}/{name}{place}", kind.gvr.group_resource()))
                    .hint("check the name, and name the namespace with --namespace; `kubectl get -A` finds it"))
            }
        })
    }
}

impl NamedObjects {
    /// Returns true if the user named several objects, also if some of them don't exist.
    pub(crate) fn are_several(&self) -> bool {
        self.found.len().saturating_add(self.missing.len()) > 1
    }
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
            ("vpc,subnet a b", Some(vec![("vpc", "a"), ("vpc", "b"), ("subnet", "a"), ("subnet", "b")])),
            ("vpc", None),
            ("vpc,subnet", None),
            ("vpc, a", None),
            ("vpc/a b", None),
            ("vpc a/b", None),
            ("vpc a subnet/b", None),
            ("/a", None),
            ("vpc/", None),
            ("vpc/a/b", None),
        ] {
            let args = NamedObjectsArgs { words: words.split(' ').map(str::to_owned).collect() };
            assert_eq!(args.named().ok(), expected, "{words}");
        }
    }
}
