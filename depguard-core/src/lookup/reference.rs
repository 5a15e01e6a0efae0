//! Reference that an object holds, and the objects that it means.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::label_selector::Selector;
use crate::model::names::{Group, Namespace, ObjectName};
use crate::model::ownership::{Collected, Owner, OwnerReference};
use crate::protocol::deletion_target::DeletionTarget;

/// A reference that an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectReference<'a> {
    /// Index of the edge, in the order in which the reader got its edges.
    pub edge: usize,
    /// The meaning of the reference.
    pub means: ReferenceTarget<'a>,
    /// The UID of the object itself, which never refers to itself.
    holder: Option<Cow<'a, str>>,
    /// The namespace of the object itself.
    namespace: Option<Cow<'a, str>>,
    /// The object's ownerReferences, if the edge ignores references to owners.
    owners: Vec<OwnerReference>,
}

/// Answer to the question if an object refers to the target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match {
    No,
    Yes,
    /// Yes, unless this version serves the target by this kind: then the object goes with the target.
    YesUnlessServed {
        version: String,
        kind: String,
    },
    /// Unknown: the end of a sentence that begins with the object.
    Unclear(String),
}

/// The objects of the edge's target kind that a reference means.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum ReferenceTarget<'a> {
    /// The object of this name.
    Named {
        /// The name; never empty.
        name: Cow<'a, str>,
        /// The target's namespace, if its kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
        /// The UID that the target must have, if the reference names one: a new object of the same name isn't meant.
        uid: Option<Cow<'a, str>>,
    },
    /// All objects with such labels.
    Selected {
        /// The selector of the labels.
        selector: Cow<'a, Selector>,
        /// The targets' namespace, if their kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
        /// Names of objects that are not meant.
        except: Cow<'a, [ObjectName]>,
    },
    /// Unknown, so any object may be meant. An evaluation refuses because of it.
    Unclear {
        /// The reason, as the end of a sentence that begins with the object.
        why: String,
        /// The targets' namespace, if their kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
        /// Names of objects that are not meant.
        except: Cow<'a, [ObjectName]>,
    },
}

/// An object to which others may refer, reduced to the data that decides that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferencedObject {
    /// The object's namespace, if it is in one.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The object's UID, if it is known.
    pub uid: Option<String>,
    /// The object's labels; only selectors use them.
    pub labels: BTreeMap<String, String>,
}

impl<'a> ObjectReference<'a> {
    pub(crate) fn new(
        edge: usize,
        means: ReferenceTarget<'a>,
        holder: Option<&'a str>,
        namespace: Option<&'a str>,
        owners: Vec<OwnerReference>,
    ) -> Self {
        Self { edge, means, holder: holder.map(Cow::Borrowed), namespace: namespace.map(Cow::Borrowed), owners }
    }

    /// Returns true if the reference means this object of the edge's target kind, so that an evaluation of its deletion
    /// in the background would find it. True as well if the meaning is [unclear](ReferenceTarget::Unclear).
    ///
    /// `kinds` are the kinds by which each version that is served serves the target, in its group.
    pub fn refers_to(
        &self,
        target: &ReferencedObject,
        group: &Group,
        kinds: &BTreeMap<String, Option<String>>,
    ) -> bool {
        let is = |uid: &Option<Cow<'_, str>>| uid.is_some() && uid.as_deref() == target.uid.as_deref();
        let owner = Owner {
            group: group.as_str(),
            kinds,
            namespace: target.namespace.as_deref(),
            name: &target.name,
            uid: target.uid.as_deref(),
            orphans: false,
        };
        let goes_too = || owner.collects(self.namespace.as_deref(), &self.owners) == Collected::Yes;
        self.means.includes(target) && !is(&self.holder) && !goes_too()
    }

    /// Returns a copy that owns its data.
    pub fn into_owned(self) -> ObjectReference<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let means = match self.means {
            ReferenceTarget::Named { name, namespace, uid } => {
                ReferenceTarget::Named { name: own(name), namespace: namespace.map(own), uid: uid.map(own) }
            }
            ReferenceTarget::Selected { selector, namespace, except } => ReferenceTarget::Selected {
                selector: Cow::Owned(selector.into_owned()),
                namespace: namespace.map(own),
                except: Cow::Owned(except.into_owned()),
            },
            ReferenceTarget::Unclear { why, namespace, except } => {
                ReferenceTarget::Unclear { why, namespace: namespace.map(own), except: Cow::Owned(except.into_owned()) }
            }
        };
        let Self { edge, means: _, holder, namespace, owners } = self;
        ObjectReference { edge, means, holder: holder.map(own), namespace: namespace.map(own), owners }
    }
}

impl ReferenceTarget<'_> {
    /// Returns true if this object of the edge's target kind is meant, or may be. The holder of the reference doesn't
    /// matter here: it may be the object itself, or an object that it owns.
    pub fn includes(&self, target: &ReferencedObject) -> bool {
        self.fits(target.namespace.as_deref(), &target.name, target.uid.as_deref(), &target.labels) != Match::No
    }

    /// Matches the target. The holder of the reference doesn't matter here.
    pub(crate) fn matches(&self, target: &DeletionTarget) -> Match {
        let namespace = target.namespace.as_ref().map(Namespace::as_str);
        self.fits(namespace, &target.name, target.uid.as_deref(), &target.labels)
    }

    fn fits(
        &self,
        target_namespace: Option<&str>,
        target_name: &str,
        target_uid: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Match {
        let (Self::Named { namespace, .. } | Self::Selected { namespace, .. } | Self::Unclear { namespace, .. }) = self;
        if elsewhere(namespace.as_deref(), target_namespace) {
            return Match::No;
        }
        if let Self::Selected { except, .. } | Self::Unclear { except, .. } = self
            && except.iter().any(|name| name.as_str() == target_name)
        {
            return Match::No;
        }
        let refers = match self {
            Self::Named { name, uid, .. } => {
                // A target without a UID may be the one.
                name == target_name && uid.as_deref().is_none_or(|uid| target_uid.is_none_or(|own| own == uid))
            }
            Self::Selected { selector, .. } => selector.matches(|key| labels.get(key).map(String::as_str)),
            Self::Unclear { why, .. } => return Match::Unclear(why.clone()),
        };
        if refers { Match::Yes } else { Match::No }
    }
}

impl ReferencedObject {
    /// Reads the data of an object as an API server returns it. Missing values are empty.
    pub fn read(object: &Value) -> Self {
        let metadata = object.get("metadata");
        let text = |field: &str| {
            let text = metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let labels = metadata.and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
        let label = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        Self {
            namespace: text("namespace"),
            name: text("name").unwrap_or_default(),
            uid: text("uid"),
            labels: labels.into_iter().flatten().filter_map(label).collect(),
        }
    }
}

/// Only where both have a namespace must they share it: a reference without one may mean any.
fn elsewhere(meant: Option<&str>, target: Option<&str>) -> bool {
    matches!((meant, target), (Some(meant), Some(own)) if meant != own)
}
