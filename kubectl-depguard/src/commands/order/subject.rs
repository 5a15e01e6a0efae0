//! Words of the command line: a place, objects, or a GlobalOwner.

use depguard_core::WorkspacePath;
use depguard_core::model::Namespace;

use super::owner::is_global_owner;
use crate::cluster::named_objects::{NamedObject, NamedObjectsArgs};
use crate::cluster::rules::ReadFailure;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::options::Global;

/// Meaning of the words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Words<'a> {
    /// There are none: the namespace that the user's flags or the kubeconfig name.
    Here,
    /// Namespace, or path of a workspace.
    Place(&'a str),
    GlobalOwner(&'a str),
    Objects,
}

/// Objects to order.
pub(super) enum Subject {
    /// All objects of a namespace, or of all namespaces.
    Place(Option<Namespace>),
    /// Objects that the user named.
    Objects {
        named: Vec<NamedObject>,
        /// True if all objects that block their deletion go with them.
        with_dependents: bool,
        /// Files that could not be read, in which others may be named.
        unread: Vec<ReadFailure>,
    },
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [String]) -> Result<Self, Failure> {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (kind, names) = match words.as_slice() {
            [] => return Ok(Self::Here),
            [word] => match word.split_once('/') {
                Some((kind, name)) => (kind, vec![name]),
                None if is_global_owner(word) => ("globalowner", Vec::new()),
                None => return Ok(Self::Place(word)),
            },
            [kind, names @ ..] => (*kind, names.to_vec()),
        };
        match (is_global_owner(kind), names.as_slice()) {
            (false, _) => Ok(Self::Objects),
            (true, [name]) if !name.is_empty() => Ok(Self::GlobalOwner(name)),
            (true, [] | [_]) => Err(Failure::new("no GlobalOwner is named").hint("write GlobalOwner NAME")),
            (true, _) => Err(Failure::new("the order of one GlobalOwner only can be shown").hint("name one of them")),
        }
    }
}

impl Subject {
    /// Returns the source with the subject. A workspace is a source of its own.
    pub(super) async fn read(
        meaning: Words<'_>,
        words: &[String],
        source: Source,
        global: &Global,
    ) -> Result<(Source, Self), Failure> {
        match meaning {
            Words::Place(place) if is_workspace(place) => {
                Ok((in_workspace(source, place)?, Self::Place(global.namespace.clone())))
            }
            Words::Place(place) if global.namespace.is_some() || global.all_namespaces => {
                Err(Failure::new(format!("`{place}` and -n or -A both name namespaces")).hint("use only one of them"))
            }
            Words::Place(place) => {
                let namespace = Namespace::parse(place).map_err(Failure::new)?;
                Ok((source, Self::Place(Some(namespace))))
            }
            Words::Here | Words::GlobalOwner(_) => {
                let namespace = source.scope(global)?;
                Ok((source, Self::Place(namespace)))
            }
            Words::Objects => {
                let named = NamedObjectsArgs::from_words(words).read(&source, global).await?;
                match Failure::joined(named.missing) {
                    Some(missing) => Err(missing),
                    None => {
                        Ok((source, Self::Objects { named: named.found, with_dependents: true, unread: Vec::new() }))
                    }
                }
            }
        }
    }
}

fn is_workspace(place: &str) -> bool {
    place == "root" || place.contains(':')
}

fn in_workspace(source: Source, place: &str) -> Result<Source, Failure> {
    let path = WorkspacePath::parse(place).map_err(Failure::new)?;
    match source {
        Source::ApiServer(live) => Ok(Source::ApiServer(Box::new(live.in_workspace(&path)?))),
        Source::Manifests(_) => Err(Failure::new(format!("`{place}` is a workspace, but files have no workspace"))
            .hint("name a namespace, or leave out -f")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_place_or_objects_or_a_global_owner() {
        for (words, meaning) in [
            ("", Some(Words::Here)),
            ("shop", Some(Words::Place("shop"))),
            ("root:acme", Some(Words::Place("root:acme"))),
            ("vpc a", Some(Words::Objects)),
            ("vpc a b", Some(Words::Objects)),
            ("vpc,subnet a", Some(Words::Objects)),
            ("vpc/a", Some(Words::Objects)),
            ("vpc/a subnet/b", Some(Words::Objects)),
            ("GlobalOwner shop", Some(Words::GlobalOwner("shop"))),
            ("globalowner/shop", Some(Words::GlobalOwner("shop"))),
            ("globalowners.globalowner.metacontroller.io shop", Some(Words::GlobalOwner("shop"))),
            ("GlobalOwner", None),
            ("globalowner/", None),
            ("GlobalOwner shop other", None),
        ] {
            let words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            assert_eq!(Words::new(&words).ok(), meaning, "{words:?}");
        }
    }
}
