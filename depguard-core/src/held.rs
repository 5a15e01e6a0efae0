//! What objects refer to: the same references that an evaluation finds, asked for from their other end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::extract::PageError;
use crate::names::Namespace;
use crate::references::{References, Refers};
use crate::rule::{Edge, Rule};
use crate::ruleset::IndexedEdge;
use crate::selector::Selector;
use crate::target::Target;

/// Reads what objects refer to by some edges, with the code by which an [`Evaluation`](crate::Evaluation) finds out who
/// refers to its target.
///
/// ```
/// use depguard_core::{Home, Means, Referent, ReferenceReader, Rule};
/// use serde_json::json;
///
/// let rule = Rule::parse(Home::Kubernetes, &json!({"metadata": {"name": "virtualmachines"}, "spec": {
///     "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
///     "dependencies": [{
///         "group": "network.example.com", "version": "v1", "resource": "vpcs",
///         "fieldRef": {"path": ".spec.vpcRef.name"},
///     }],
/// }}))?;
/// let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
///
/// let vm = json!({"metadata": {"name": "m1", "namespace": "x"}, "spec": {"vpcRef": {"name": "a"}}});
/// let vpc = |namespace: &str| Referent::read(&json!({"metadata": {"name": "a", "namespace": namespace}}));
/// reader.read(&vm, |held| {
///     assert_eq!(held.edge, 0);
///     assert_eq!(held.means, Means::Named { name: "a".into(), namespace: Some("x".into()), uid: None });
///     assert!(held.refers_to(&vpc("x")) && !held.refers_to(&vpc("y")));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReferenceReader(References);

/// A reference that an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held<'a> {
    /// By which of the reader's edges, counted from 0 in the order in which it was given them.
    pub edge: usize,
    /// What it means.
    pub means: Means<'a>,
    /// The UID of the object itself, which never holds itself.
    holder: Option<Cow<'a, str>>,
    /// Whoever owns the object, by UID, where the edge lets such targets go.
    owners: Vec<Cow<'a, str>>,
}

/// Which objects of the edge's target kind are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Means<'a> {
    /// The one of this name.
    Named {
        /// Never empty.
        name: Cow<'a, str>,
        /// The namespace that it is in, where its kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
        /// The UID that it must have, where the reference says one: a namesake made anew isn't meant.
        uid: Option<Cow<'a, str>>,
    },
    /// All that have such labels.
    Selected {
        /// Which.
        selector: Cow<'a, Selector>,
        /// The namespace that they are in, where their kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
    },
    /// It can't be told, so that it may be any. An evaluation refuses for it.
    Unclear {
        /// The end of a sentence that begins with the object.
        why: String,
        /// The namespace that they are in, where their kind has namespaces. `None`: any.
        namespace: Option<Cow<'a, str>>,
    },
}

/// An object that may be referred to: what of it says whether it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referent {
    /// Its namespace, where it is in one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID, where it is known.
    pub uid: Option<String>,
    /// Its labels; only selectors look at them.
    pub labels: BTreeMap<String, String>,
}

impl ReferenceReader {
    /// Reads by these edges, each with its rule.
    pub fn new<'r>(edges: impl IntoIterator<Item = (&'r Rule, &'r Edge)>) -> Self {
        let edges = edges.into_iter().map(|(rule, edge)| {
            let dependent = Arc::new(rule.dependent().clone());
            Arc::new(IndexedEdge::new(rule, &dependent, edge.clone()))
        });
        Self(References::new(&edges.collect::<Vec<_>>()))
    }

    /// Hands all that an object refers to, or may refer to, to `each`; a target that it means twice, twice. The object is
    /// taken to be of the kind that the edges are about.
    ///
    /// An object without a name is an error.
    pub fn read(&self, object: &Value, each: impl FnMut(Held<'_>)) -> Result<(), PageError> {
        let list = [br#"{"metadata":{},"items":["#, object.to_string().as_bytes(), b"]}"].concat();
        self.0.held(&list, each).map(drop)
    }
}

impl<'a> Held<'a> {
    pub(crate) fn new(edge: usize, means: Means<'a>, holder: Option<&'a str>, owners: Vec<Cow<'a, str>>) -> Self {
        Self { edge, means, holder: holder.map(Cow::Borrowed), owners }
    }

    /// Whether it means this object of the edge's target kind, so that the one would be found to hold the other; also where
    /// that [can't be told](Means::Unclear).
    pub fn refers_to(&self, target: &Referent) -> bool {
        let is = |uid: &Option<Cow<'_, str>>| uid.is_some() && uid.as_deref() == target.uid.as_deref();
        let is_owned = || self.owners.iter().any(|owner| target.uid.as_deref() == Some(&**owner));
        self.means.includes(target) && !is(&self.holder) && !is_owned()
    }

    /// The same, borrowed from nowhere.
    pub fn into_owned(self) -> Held<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let means = match self.means {
            Means::Named { name, namespace, uid } => {
                Means::Named { name: own(name), namespace: namespace.map(own), uid: uid.map(own) }
            }
            Means::Selected { selector, namespace } => {
                Means::Selected { selector: Cow::Owned(selector.into_owned()), namespace: namespace.map(own) }
            }
            Means::Unclear { why, namespace } => Means::Unclear { why, namespace: namespace.map(own) },
        };
        let owners = self.owners.into_iter().map(own).collect();
        Held { edge: self.edge, means, holder: self.holder.map(own), owners }
    }
}

impl Means<'_> {
    /// Whether this object of the edge's target kind is meant, whoever means it: also by itself, and by what it owns.
    pub fn includes(&self, target: &Referent) -> bool {
        self.fits(target.namespace.as_deref(), &target.name, target.uid.as_deref(), &target.labels) != Refers::No
    }

    /// Whether the target is meant, leaving aside whose reference it is.
    pub(crate) fn target(&self, target: &Target) -> Refers {
        let namespace = target.namespace.as_ref().map(Namespace::as_str);
        self.fits(namespace, &target.name, target.uid.as_deref(), &target.labels)
    }

    fn fits(
        &self,
        target_namespace: Option<&str>,
        target_name: &str,
        target_uid: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Refers {
        let (Self::Named { namespace, .. } | Self::Selected { namespace, .. } | Self::Unclear { namespace, .. }) = self;
        if elsewhere(namespace.as_deref(), target_namespace) {
            return Refers::No;
        }
        let refers = match self {
            Self::Named { name, uid, .. } => {
                // A target without a UID may be the one.
                name == target_name && uid.as_deref().is_none_or(|uid| target_uid.is_none_or(|own| own == uid))
            }
            Self::Selected { selector, .. } => selector.matches(|key| labels.get(key).map(String::as_str)),
            Self::Unclear { why, .. } => return Refers::Unclear(why.clone()),
        };
        if refers { Refers::Yes } else { Refers::No }
    }
}

impl Referent {
    /// Reads it from an object as an API server returns it. What is not there is empty.
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
