//! Object of a review, reduced to its metadata and borrowed from its bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::api;
use crate::protocol::cascade::ORPHAN_FINALIZER;
use crate::scan::text::{Text, same};

/// An object of a review, reduced to its metadata.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ReviewedObject<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<Labels<'a>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

/// Labels, each key once. A duplicate key is an error, because another reader of the document may take the other
/// value.
#[derive(Debug, Clone)]
struct Labels<'a>(BTreeMap<Text<'a>, Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelsVisitor;

        impl<'de> Visitor<'de> for LabelsVisitor {
            type Value = Labels<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = BTreeMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    if labels.insert(key, value).is_some() {
                        return Err(A::Error::custom("a label occurs twice"));
                    }
                }
                Ok(Labels(labels))
            }
        }

        deserializer.deserialize_map(LabelsVisitor)
    }
}

/// The annotations that depguard needs; all others are skipped.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Annotations<'a> {
    #[serde(borrow, rename = "kcp.io/cluster")]
    pub(super) cluster: Option<Text<'a>>,
    #[serde(borrow, rename = "dependencies.opendefense.cloud/skip-protection")]
    skip_protection: Option<Text<'a>>,
}

impl ReviewedObject<'_> {
    pub(crate) fn name(&self) -> Option<&str> {
        given(self.metadata.name.as_ref())
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        given(self.metadata.namespace.as_ref())
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        given(self.metadata.uid.as_ref())
    }

    #[cfg_attr(not(feature = "interlock"), allow(dead_code, reason = "only the interlock uses it"))]
    pub(crate) fn resource_version(&self) -> Option<&str> {
        given(self.metadata.resource_version.as_ref())
    }

    pub(crate) fn cluster(&self) -> Option<&str> {
        given(self.metadata.annotations.as_ref().and_then(|all| all.cluster.as_ref()))
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.labels.iter().flat_map(|labels| &labels.0).map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns the finalizers. Those that can't be read may be any, so the object counts as one that is orphaning.
    pub(crate) fn finalizers(&self) -> impl Iterator<Item = Text<'_>> {
        let read = |raw| serde_json::from_str::<Option<Vec<Text<'_>>>>(RawValue::get(raw)).ok();
        let read = self.metadata.finalizers.map_or(Some(None), read);
        read.map_or_else(|| vec![Text(Cow::Borrowed(ORPHAN_FINALIZER))], Option::unwrap_or_default).into_iter()
    }

    pub(crate) fn wants_no_protection(&self) -> bool {
        let skip = self.metadata.annotations.as_ref().and_then(|all| all.skip_protection.as_ref());
        skip.is_some_and(|value| value.as_str() == "true")
    }
}

/// Returns the text, unless it is absent or empty.
pub(super) fn given<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(Text::as_str).filter(|text| !text.is_empty())
}

// The names in serde attributes must be literals; this check ties them to the constants.
const _: () = {
    assert!(same(api::CLUSTER_ANNOTATION, "kcp.io/cluster"));
    assert!(same(api::SKIP_ANNOTATION, "dependencies.opendefense.cloud/skip-protection"));
};
