//! Packs of ready-made rules: references between the kinds of Kubernetes, of kcp and of well-known products.
//!
//! A pack is a YAML file in the crate's folder `packs`; [`manifests`](crate::manifests) makes files and rights of it.

mod edge;

use std::sync::LazyLock;

use depguard_core::api::FieldCondition;
use depguard_core::{ControlPlane, api};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use self::edge::PackEdge;

/// Files of the packs: the name of each without its ending, and its text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/packs.rs"));

/// Rules that belong together, ready to apply.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct RulePack {
    /// Name of the pack, and of its file without the ending.
    #[serde(skip)]
    pub name: &'static str,
    /// Control plane that has the kinds.
    #[serde(with = "NamedControlPlane")]
    pub control_plane: ControlPlane,
    /// Place in a list of all packs; those without one follow by their names.
    #[serde(default = "last")]
    order: u8,
    /// Part of a sentence that begins with "keeps": the objects that are protected, and from whom.
    pub protects: String,
    /// Sentences to read before one applies the rules.
    pub notes: Vec<String>,
    /// Sentences about what the default rules let go, and the strict ones refuse.
    #[serde(default)]
    pub by_default: Vec<String>,
    /// Definitions against which the paths were checked, with their version, or the reason why there are none.
    pub held_against: String,
    /// True if the rules are the strict ones.
    #[serde(skip)]
    pub(crate) is_strict: bool,
    rules: Vec<PackRule>,
    /// Rules that say which objects an object makes and keeps, and which nobody applies.
    #[serde(default)]
    makes: Vec<Map<String, Value>>,
    /// Fields that name objects, and that no rule of the pack follows.
    pub left_out: Vec<LeftOut>,
    /// Kinds and conditions that other parts of the file name by YAML's aliases.
    #[serde(rename = "common")]
    _common: IgnoredAny,
}

/// Field that names an object, and the reason why no rule follows it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LeftOut {
    /// Plural of the kind that has the field.
    pub resource: String,
    /// Path of the field, as a rule would have it.
    pub path: String,
    /// Part of a sentence: the reason.
    pub reason: String,
}

/// Control plane, by its name in a file.
#[derive(Deserialize)]
#[serde(remote = "ControlPlane", rename_all = "lowercase")]
enum NamedControlPlane {
    Kcp,
    Kubernetes,
}

/// Rule of a pack: its name, its annotations, and the fields of its spec.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackRule {
    name: String,
    /// Name of the rule in a former version.
    formerly: Option<String>,
    annotations: Option<Map<String, Value>>,
    /// True if the strict rules need no such rule, since they count other dependents instead.
    #[serde(default)]
    by_default_only: bool,
    /// Conditions on a dependent that leaves its references to another rule: all of them hold.
    #[serde(default)]
    unless: Vec<FieldCondition>,
    dependencies: Vec<PackEdge>,
    #[serde(flatten)]
    spec: Map<String, Value>,
}

impl RulePack {
    /// Returns all packs, in the order in which they are listed.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<RulePack>> = LazyLock::new(|| RulePack::read(false));
        &ALL
    }

    /// Returns the pack with its strict rules, which also refuse what the default ones leave to Kubernetes or to another
    /// rule.
    pub fn strict(&'static self) -> &'static Self {
        static STRICT: LazyLock<Vec<RulePack>> = LazyLock::new(|| RulePack::read(true));
        STRICT.iter().find(|pack| pack.name == self.name).unwrap_or(self)
    }

    /// Returns the pack with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|pack| pack.name == name)
    }

    /// Returns the rules.
    pub fn rules(&self) -> Vec<Value> {
        self.in_force().map(|rule| rule.manifest(self.is_strict)).collect()
    }

    /// Returns the rules that had another name in a former version: that name, and the rule.
    pub fn formerly(&self) -> impl Iterator<Item = (&str, Value)> {
        self.in_force().filter_map(|rule| Some((rule.formerly.as_deref()?, rule.manifest(self.is_strict))))
    }

    /// Returns the default rules; each kind of dependents of a strict rule is in one of them.
    pub(crate) fn default_rules(&self) -> Vec<Value> {
        self.rules.iter().map(|rule| rule.manifest(false)).collect()
    }

    fn in_force(&self) -> impl Iterator<Item = &PackRule> {
        self.rules.iter().filter(|rule| !(self.is_strict && rule.by_default_only))
    }

    fn read(is_strict: bool) -> Vec<Self> {
        // A test holds that each file can be parsed.
        let packs = FILES.iter().filter_map(|(name, text)| Self::parse(name, text).ok());
        let mut packs: Vec<_> = packs.map(|pack| Self { is_strict, ..pack }).collect();
        packs.sort_by_key(|pack| pack.order);
        packs
    }

    /// Returns what objects of other kinds make and keep, as if a rule said that the maker refers to it. Of several
    /// dependencies the first counts by which the maker names an object.
    pub fn makes(&self) -> impl Iterator<Item = Value> {
        self.makes.iter().map(|spec| manifest(&json!({"name": self.name}), spec))
    }

    fn parse(name: &'static str, text: &str) -> Result<Self, serde_saphyr::Error> {
        // The limits are for files of others: few kinds have many aliases here.
        let pack = serde_saphyr::from_str_with_options(text, serde_saphyr::options! { budget: None })?;
        Ok(Self { name, ..pack })
    }
}

fn last() -> u8 {
    u8::MAX
}

impl PackRule {
    fn manifest(&self, is_strict: bool) -> Value {
        let Self { name, formerly: _, annotations, by_default_only: _, unless, dependencies, spec } = self;
        let metadata = match annotations {
            Some(annotations) => json!({"name": name, "annotations": annotations}),
            None => json!({"name": name}),
        };
        let dependencies: Vec<_> = match is_strict {
            true => dependencies.iter().map(PackEdge::strict).collect(),
            false => dependencies.iter().flat_map(|edge| edge.default(unless)).collect(),
        };
        let mut spec = spec.clone();
        spec.insert("dependencies".to_owned(), dependencies.into());
        manifest(&metadata, &spec)
    }
}

fn manifest(metadata: &Value, spec: &Map<String, Value>) -> Value {
    let version = format!("{}/{}", api::GROUP, api::VERSION);
    json!({"apiVersion": version, "kind": api::KIND, "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use depguard_core::Rule;

    use super::*;

    #[test]
    fn each_file_is_a_pack() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/packs");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
        for (name, text) in FILES {
            let pack = RulePack::parse(name, text).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!pack.rules.is_empty(), "{name} has no rules");
            for maker in pack.makes() {
                Rule::parse(pack.control_plane, &maker).unwrap_or_else(|why| panic!("{name}: {why}: {maker}"));
            }
        }
        assert_eq!(RulePack::all().len(), FILES.len());
    }

    #[test]
    fn a_file_with_a_slip_is_no_pack() {
        let (name, text) = FILES[0];
        for (right, wrong) in [("heldAgainst:", "heldAgaints:"), ("controlPlane: k", "controlPlane: c"), ("rules:", "")]
        {
            assert!(text.contains(right) && RulePack::parse(name, &text.replacen(right, wrong, 1)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_optional_reference_has_a_path() {
        let read = |reference: &str| {
            let edge = format!("{{group: '', version: v1, resource: secrets, whereOptional: Warn, {reference}}}");
            serde_saphyr::from_str::<PackEdge>(&edge)
        };
        for reference in
            ["fieldRef: {path: .spec.secretRef.name}", "fieldRef: {path: '.spec.secrets[*].name', keys: true}"]
        {
            assert_eq!(read(reference).unwrap().default(&[]).len(), 2, "{reference}");
        }
        for reference in ["fieldRef: {value: a}", "selectorRef: {path: .spec.selector}", "kind: Secret"] {
            let why = read(reference).unwrap_err().to_string();
            assert!(why.contains("whereOptional needs fieldRef.path"), "{reference}: {why}");
        }
    }
}
