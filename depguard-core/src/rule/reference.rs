//! References: the ways in which a dependent names or selects its target.

use std::fmt;
use std::sync::LazyLock;

use crate::model::api::Scalar;
use crate::model::field_path::{FieldPath, Segment};
use crate::model::label_selector::Selector;
use crate::model::name_pattern::Pattern;
use crate::model::names::{Kind, Namespace, ObjectName, Separator};

/// The path of the name, which every object has exactly once. A reference that all dependents have is found there.
static EACH: LazyLock<FieldPath> = LazyLock::new(FieldPath::name);

/// The way in which a dependent names or selects its target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Reference {
    /// The dependent names the target in a field.
    Field(Box<FieldReference>),
    /// The rule holds the name, and each dependent refers to the target of this name.
    Fixed(Box<FixedReference>),
    /// The dependent selects the target by labels: the field holds a label selector.
    Selector(SelectorReference),
    /// The rule holds the label selector, and each dependent refers to all targets that it selects.
    Selected(Selector),
}

/// A field that holds names, and further fields that narrow each name down to a target.
///
/// The other paths share all of their wildcards with `path`, from its beginning: for each name, each other path has
/// at most one value. If the group, the kind, the version or the UID has no value, every target matches it. If the
/// namespace has no value, the dependent's own namespace is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldReference {
    /// The name: a string, each string of a list, or with `keys` each key of a map.
    pub path: FieldPath,
    /// True if the names are the keys of the map at `path`.
    pub keys: bool,
    /// The separator of several names in one string; `None`: a string is one value.
    pub split: Option<Separator>,
    /// The pattern that extracts the name from the value; `None`: the whole value is the name.
    pub pattern: Option<Pattern>,
    /// The target's namespace.
    pub place: Place,
    /// The target's group.
    pub group: Option<ValueSource>,
    /// The target's kind.
    pub kind: Option<ValueSource>,
    /// The kind that is meant where the kind has no value; `None`: any.
    pub default_kind: Option<Kind>,
    /// The target's group and version.
    pub api_version: Option<FieldPath>,
    /// The target's UID.
    pub uid: Option<FieldPath>,
}

/// A field that holds a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectorReference {
    /// The selector.
    pub path: FieldPath,
    /// Fields of the selector that only narrow what it selects, so that nothing is missed without them.
    pub narrowed_by: Vec<String>,
}

/// A name that stands in the rule, for all dependents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FixedReference {
    /// The target's name.
    pub name: ObjectName,
    /// The target's namespace.
    pub place: Place,
}

/// The place of a value that describes a target: a field of the dependent, and the part of the field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a value is found in no other way; each reader must look at both fields")]
pub struct ValueSource {
    /// The field; `None`: the value that holds the name.
    pub path: Option<FieldPath>,
    /// The pattern that extracts the value; `None`: the whole value.
    pub pattern: Option<Pattern>,
}

/// Namespace in which a reference looks for its target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Place {
    /// The dependent's own namespace; for a dependent without a namespace, any.
    Own,
    /// Always this namespace.
    Fixed(Namespace),
    /// The namespace that the dependent names, else its own.
    Said(ValueSource),
}

/// A condition on a field of the dependent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldCondition {
    /// The field. The reference's path shares all wildcards of this path.
    pub path: FieldPath,
    /// The values that the field may have; with `excludes`, those that it may not have.
    pub values: Vec<Scalar>,
    /// True if the condition holds unless the field has one of the values.
    pub excludes: bool,
}

impl FieldCondition {
    /// The fields of a dependency that hold the paths of the conditions after the first.
    pub(super) const FURTHER: [&str; 4] =
        ["when.and[0].path", "when.and[1].path", "when.and[2].path", "when.and[3].path"];
}

impl Reference {
    /// Returns the path at which references are found; all other paths go along with it.
    pub fn path(&self) -> &FieldPath {
        match self {
            Self::Field(field) => &field.path,
            Self::Selector(selector) => &selector.path,
            Self::Fixed(_) | Self::Selected(_) => &EACH,
        }
    }

    /// Returns which namespace the targets are in. References by labels mean the dependent's own.
    pub(crate) fn place(&self) -> &Place {
        match self {
            Self::Field(field) => {
                // The other fields only describe a target further.
                let FieldReference {
                    path: _,
                    keys: _,
                    split: _,
                    pattern: _,
                    place,
                    group: _,
                    kind: _,
                    default_kind: _,
                    api_version: _,
                    uid: _,
                } = &**field;
                place
            }
            Self::Fixed(fixed) => {
                let FixedReference { name: _, place } = &**fixed;
                place
            }
            Self::Selector(_) | Self::Selected(_) => &Place::Own,
        }
    }

    /// Returns true if the reference selects its targets by labels, so that it may well mean none.
    pub fn selects(&self) -> bool {
        match self {
            Self::Field(_) | Self::Fixed(_) => false,
            Self::Selector(_) | Self::Selected(_) => true,
        }
    }

    /// Returns true if a reference of a dependent without a namespace may mean targets of each namespace.
    pub fn may_mean_each_namespace(&self) -> bool {
        match self.place() {
            Place::Own | Place::Said(_) => true,
            Place::Fixed(_) => false,
        }
    }

    /// Returns true if the reference only ever means targets in the dependent's own namespace. For a dependent
    /// without a namespace, that means targets in any namespace.
    pub fn stays_in_namespace(&self) -> bool {
        *self.place() == Place::Own
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let (one, field) = match self {
            Self::Selector(SelectorReference { path, narrowed_by: _ }) => (Some(("selectorRef.path", path)), None),
            Self::Field(field) => (None, Some(field.paths())),
            Self::Fixed(_) => (self.place().path().map(|path| ("fieldRef.namespacePath", path)), None),
            Self::Selected(_) => (None, None),
        };
        one.into_iter().chain(field.into_iter().flatten())
    }

    /// Returns true if the reference shares each wildcard of `other`, so that `other` has at most one value for each
    /// reference.
    pub(super) fn goes_with(&self, other: &FieldPath) -> bool {
        let mut own = self.path().segments().to_vec();
        if matches!(self, Self::Field(field) if field.keys) {
            // Each key belongs to one value of the map.
            own.push(Segment::Wildcard);
        }
        let shared = own.iter().zip(other.segments()).take_while(|(own, other)| own == other);
        shared.filter(|(own, _)| **own == Segment::Wildcard).count() == other.wildcards()
    }
}

/// Prints the path, or the name or selector of the rule.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(_) | Self::Selector(_) => self.path().fmt(f),
            Self::Fixed(fixed) => fixed.name.fmt(f),
            Self::Selected(selector) => selector.fmt(f),
        }
    }
}

impl FieldReference {
    fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let Self { path, keys: _, split: _, pattern: _, place, group, kind, default_kind: _, api_version, uid } = self;
        fn path_of(source: &Option<ValueSource>) -> Option<&FieldPath> {
            source.as_ref().and_then(|ValueSource { path, pattern: _ }| path.as_ref())
        }
        let others = [
            ("fieldRef.namespacePath", place.path()),
            ("fieldRef.groupPath", path_of(group)),
            ("fieldRef.kindPath", path_of(kind)),
            ("fieldRef.apiVersionPath", api_version.as_ref()),
            ("fieldRef.uidPath", uid.as_ref()),
        ];
        let others = others.into_iter().filter_map(|(field, path)| Some((field, path?)));
        [("fieldRef.path", path)].into_iter().chain(others)
    }
}

impl Place {
    /// Returns the field of the dependent that holds the namespace, if there is one.
    fn path(&self) -> Option<&FieldPath> {
        match self {
            Self::Said(ValueSource { path, pattern: _ }) => path.as_ref(),
            Self::Own | Self::Fixed(_) => None,
        }
    }
}
