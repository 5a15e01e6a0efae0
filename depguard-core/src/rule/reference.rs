//! How a dependent says which target it means.

use std::fmt;
use std::sync::LazyLock;

use crate::names::Namespace;
use crate::path::{FieldPath, Segment};
use crate::pattern::Pattern;
use crate::selector::Selector;

/// What stands in every object once, so that a reference which each of them has is found there.
static EACH: LazyLock<FieldPath> = LazyLock::new(FieldPath::name);

/// How a dependent says which target it means.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Reference {
    /// By its name, in a field.
    Field(Box<FieldReference>),
    /// By its labels: the field holds a label selector.
    Selector(FieldPath),
    /// By its labels: the rule holds the selector, and each dependent refers to all that it selects.
    Selected(Selector),
}

/// A field that holds names, and what else of the dependent says which target each of them means.
///
/// The wildcards of the other paths are all shared with `path`, from its beginning: for each name there is one value
/// of each other path at most. A value that is not there counts as if it said the target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldReference {
    /// The name: a string, each string of a list, or with `keys` each key of a map.
    pub path: FieldPath,
    /// Whether the names are the keys of the map at `path`.
    pub keys: bool,
    /// What is the name of what stands there; `None`: all of it.
    pub pattern: Option<Pattern>,
    /// Which namespace the target is in.
    pub place: Place,
    /// The target's group.
    pub group: Option<FieldPath>,
    /// The target's kind.
    pub kind: Option<FieldPath>,
    /// The target's group and version.
    pub api_version: Option<FieldPath>,
    /// The target's UID.
    pub uid: Option<FieldPath>,
}

/// Which namespace a target is in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Place {
    /// The dependent's own; of a dependent without one: any.
    Own,
    /// Always this one.
    Fixed(Namespace),
    /// The one that the dependent says, else its own.
    Said {
        /// Where; `None`: where the name is.
        path: Option<FieldPath>,
        /// What is the namespace of what stands there; `None`: all of it.
        pattern: Option<Pattern>,
    },
}

/// A condition on a field of the dependent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct When {
    /// The field. Its wildcards are all shared with the reference's path.
    pub path: FieldPath,
    /// The values that it may have.
    pub values: Vec<String>,
}

impl Reference {
    /// The path that finds references; all others go along with it.
    pub fn path(&self) -> &FieldPath {
        match self {
            Self::Field(field) => &field.path,
            Self::Selector(path) => path,
            Self::Selected(_) => &EACH,
        }
    }

    /// Whether it only ever means targets of the dependent's own namespace; of a dependent without one, of any.
    pub fn stays_in_namespace(&self) -> bool {
        match self {
            Self::Field(field) => field.place == Place::Own,
            Self::Selector(_) | Self::Selected(_) => true,
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let (selector, field) = match self {
            Self::Selector(path) => (Some(("selectorRef.path", path)), None),
            Self::Field(field) => (None, Some(field.paths())),
            Self::Selected(_) => (None, None),
        };
        selector.into_iter().chain(field.into_iter().flatten())
    }

    /// Whether each wildcard of `other` is one of the reference's too, so that it has one value at most for each
    /// reference.
    pub(super) fn goes_with(&self, other: &FieldPath) -> bool {
        let mut own = self.path().segments().to_vec();
        if matches!(self, Self::Field(field) if field.keys) {
            // Each key is that of one value of the map.
            own.push(Segment::Wildcard);
        }
        let shared = own.iter().zip(other.segments()).take_while(|(own, other)| own == other);
        shared.filter(|(own, _)| **own == Segment::Wildcard).count() == other.wildcards()
    }
}

/// What says which targets are meant: the path, or the selector.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(_) | Self::Selector(_) => self.path().fmt(f),
            Self::Selected(selector) => selector.fmt(f),
        }
    }
}

impl FieldReference {
    fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let namespace = match &self.place {
            Place::Said { path, .. } => path.as_ref(),
            Place::Own | Place::Fixed(_) => None,
        };
        let others = [
            ("fieldRef.namespacePath", namespace),
            ("fieldRef.groupPath", self.group.as_ref()),
            ("fieldRef.kindPath", self.kind.as_ref()),
            ("fieldRef.apiVersionPath", self.api_version.as_ref()),
            ("fieldRef.uidPath", self.uid.as_ref()),
        ];
        let others = others.into_iter().filter_map(|(field, path)| Some((field, path?)));
        [("fieldRef.path", &self.path)].into_iter().chain(others)
    }
}
