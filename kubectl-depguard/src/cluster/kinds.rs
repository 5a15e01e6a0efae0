//! Kinds and the names that people use for them.

use std::collections::BTreeMap;

use depguard_core::model::{GroupResource, Resource, Version};
use depguard_core::{Group, GroupVersionResource};
use serde_json::Value;

use crate::cluster::built_in_kinds;
use crate::cluster::rules::ReadFailure;
use crate::io::exit::Failure;

/// Kind in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindInfo {
    pub(crate) gvr: GroupVersionResource,
    pub(crate) kind: String,
    /// `None` if the scope is unknown.
    pub(crate) namespaced: Option<bool>,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    /// False if the API server says that objects of the kind can't be listed.
    pub(crate) is_listed: bool,
}

/// Known kinds, the preferred version of each first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kinds {
    known: Vec<KindInfo>,
    /// Groups whose kinds the API server serves but could not list.
    unread: Vec<(Group, ReadFailure)>,
    /// True if users may also name Kubernetes' own kinds that are not among the known ones.
    has_built_in: bool,
}

impl Kinds {
    /// Creates the kinds of manifest files: beside those that the files tell, users may name Kubernetes' own.
    pub(crate) fn with_built_in() -> Self {
        Self { has_built_in: true, ..Self::default() }
    }

    /// Adds a kind, unless that version of the kind is known. The version that is added first is preferred.
    pub(crate) fn learn(&mut self, kind: KindInfo) {
        if !self.known.iter().any(|known| known.gvr == kind.gvr) {
            self.known.push(kind);
        }
    }

    /// Records that the kinds of a group could not be read.
    pub(crate) fn miss(&mut self, group: Group, unread: ReadFailure) {
        self.unread.push((group, unread));
    }

    /// Returns the versions of a group whose kinds could not be read.
    pub(crate) fn unread_of(&self, group: &Group) -> impl Iterator<Item = &ReadFailure> {
        self.unread.iter().filter(move |(own, _)| own == group).map(|(_, unread)| unread)
    }

    /// Returns the versions of groups whose kinds could not be read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &ReadFailure> {
        self.unread.iter().map(|(_, unread)| unread)
    }

    /// Returns true if the kinds of every group could be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KindInfo> {
        self.known.iter()
    }

    /// Returns the kind of that group and resource, in its preferred version.
    pub(crate) fn of(&self, kind: &GroupResource) -> Option<&KindInfo> {
        self.known.iter().find(|known| known.gvr.group == kind.group && known.gvr.resource == kind.resource)
    }

    /// Returns the kind by which each served version serves that group and resource.
    pub(crate) fn served(&self, kind: &GroupResource) -> BTreeMap<String, Option<String>> {
        let own = self.known.iter().filter(|known| known.gvr.group_resource() == *kind);
        own.map(|known| (known.gvr.version.to_string(), Some(known.kind.clone()))).collect()
    }

    /// Returns the kind of an object with this `apiVersion` and `kind`.
    pub(crate) fn of_object(&self, api_version: &str, kind: &str) -> Option<&KindInfo> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let same = |known: &&KindInfo| known.gvr.group.as_str() == group && known.kind == kind;
        let exact = |known: &&KindInfo| same(known) && known.gvr.version.as_str() == version;
        self.known.iter().find(exact).or_else(|| self.known.iter().find(same))
    }

    /// Finds the kind that a user names `vpc`, `vpcs`, `VPC`, by a short name, `vpcs.network.example.com` or
    /// `vpcs.v1.network.example.com`. The core group wins over others, as it does for kubectl.
    pub(crate) fn find(&self, named: &str) -> Result<&KindInfo, Failure> {
        let (resource, rest) = named.split_once('.').map_or((named, None), |(resource, rest)| (resource, Some(rest)));
        let is_meant = |kind: &&KindInfo| {
            let group = kind.gvr.group.as_str();
            let versioned = format!("{}.{group}", kind.gvr.version);
            kind.is_called(resource) && rest.is_none_or(|rest| rest == group || rest == versioned.trim_end_matches('.'))
        };
        let mut matching: Vec<_> = self.known.iter().filter(is_meant).collect();
        if matching.is_empty() && self.has_built_in {
            matching = built_in_kinds::all().iter().filter(is_meant).collect();
        }
        let mut groups: Vec<_> = matching.iter().map(|known| known.gvr.group.as_str()).collect();
        groups.dedup();
        let core = matching.iter().find(|known| known.gvr.group.is_core());
        match (matching.first(), core, groups.len()) {
            (_, Some(core), _) => Ok(core),
            (Some(only), None, 1) => Ok(only),
            (Some(_), None, _) => {
                let names: Vec<_> = matching.iter().map(|known| known.gvr.group_resource().to_string()).collect();
                Err(Failure::new(format!("`{named}` may be any of {}", names.join(", "))).hint("write one of them"))
            }
            (None, ..) => Err(match self.unread.first() {
                None => Failure::new(format!("there is no kind `{named}`"))
                    .hint("write its resource with its group, as in `vpcs.network.example.com`"),
                Some((_, unread)) => Failure::new(format!("found no kind `{named}`, but could not read {unread}"))
                    .hint("run it again once `kubectl api-resources` lists all kinds"),
            }),
        }
    }
}

impl KindInfo {
    /// Builds a kind from what an object or a rule says, and nothing more.
    pub(crate) fn bare(gvr: GroupVersionResource, kind: &str, namespaced: Option<bool>) -> Self {
        Self {
            gvr,
            kind: kind.to_owned(),
            namespaced,
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            is_listed: true,
        }
    }

    /// Returns the kind in another version.
    pub(crate) fn in_version(&self, version: Version) -> Self {
        let mut kind = self.clone();
        kind.gvr.version = version;
        kind
    }

    /// Returns one entry for each served version of a CustomResourceDefinition or an APIResourceSchema, the stored
    /// version first.
    pub(crate) fn from_definition(definition: &Value) -> Vec<Self> {
        let spec = definition.get("spec").unwrap_or(&Value::Null);
        let names = spec.get("names").unwrap_or(&Value::Null);
        let text = |object: &Value, field: &str| object.get(field)?.as_str().map(str::to_owned);
        let mut versions: Vec<_> = spec.get("versions").and_then(Value::as_array).into_iter().flatten().collect();
        let is = |version: &Value, what: &str| version.get(what).is_some_and(|value| *value == Value::Bool(true));
        versions.retain(|version| is(version, "served"));
        versions.sort_by_key(|version| !is(version, "storage"));
        let kinds = versions.into_iter().filter_map(|version| {
            let kind = text(names, "kind")?;
            Some(Self {
                gvr: GroupVersionResource {
                    group: Group::parse(&text(spec, "group").unwrap_or_default()).ok()?,
                    version: Version::parse(&text(version, "name")?).ok()?,
                    resource: Resource::parse(&text(names, "plural")?).ok()?,
                },
                namespaced: text(spec, "scope").map(|scope| scope == "Namespaced"),
                singular: text(names, "singular").filter(|name| !name.is_empty()).unwrap_or(kind.to_lowercase()),
                short_names: strings(names.get("shortNames")),
                is_listed: true,
                kind,
            })
        });
        kinds.collect()
    }

    /// Returns the kinds in an APIResourceList, the discovery document of one version of a group.
    pub(crate) fn of_discovery(group: &Group, version: &Version, list: &Value) -> Vec<Self> {
        let resources = list.get("resources").and_then(Value::as_array).into_iter().flatten();
        let kinds = resources.filter_map(|found| {
            let text = |field: &str| found.get(field).and_then(Value::as_str);
            let kind = text("kind")?.to_owned();
            // The name of a subresource has a slash, which no name of a resource has.
            let resource = Resource::parse(text("name")?).ok()?;
            Some(Self {
                gvr: GroupVersionResource { group: group.clone(), version: version.clone(), resource },
                namespaced: found.get("namespaced").and_then(Value::as_bool),
                singular: text("singularName").filter(|n| !n.is_empty()).map_or(kind.to_lowercase(), str::to_owned),
                short_names: strings(found.get("shortNames")),
                is_listed: found.get("verbs").is_none()
                    || strings(found.get("verbs")).iter().any(|verb| verb == "list"),
                kind,
            })
        });
        kinds.collect()
    }

    /// Returns the path of the kind's collection, or of one of its objects.
    pub(crate) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        self.gvr.path(namespace, name)
    }

    fn is_called(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        self.gvr.resource.as_str() == lower
            || self.singular == lower
            || self.kind.to_lowercase() == lower
            || self.short_names.contains(&lower)
    }
}

/// Limit on the letters after a kind's stem in a plural, as in `policies` of Policy.
const MAX_PLURAL_ENDING: usize = 3;

/// Guesses the resource of a kind: the plural that an API server uses by default.
pub(crate) fn guess_resource(kind: &str) -> Option<Resource> {
    let lower = kind.to_lowercase();
    let plural = match lower.as_str() {
        "endpoints" => lower,
        _ if lower.ends_with('s') || lower.ends_with('x') || lower.ends_with("ch") || lower.ends_with("sh") => {
            format!("{lower}es")
        }
        _ => match lower.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{lower}s"),
        },
    };
    Resource::parse(&plural).ok()
}

/// Returns true if a resource may be the plural of a kind, in whatever form: `meshs` or `meshes` of Mesh.
pub(crate) fn may_be_plural(resource: &str, kind: &str) -> bool {
    let lower = kind.to_lowercase();
    let stem = lower.strip_suffix(['y', 'f']).unwrap_or(&lower);
    resource.strip_prefix(stem).is_some_and(|ending| ending.len() <= MAX_PLURAL_ENDING)
}

/// Returns the name as kubectl takes it: `vpcs.network.example.com`, or `configmaps` in the core group.
pub(crate) fn resource_name(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds() -> Kinds {
        let mut kinds = Kinds::default();
        let definition = json!({"spec": {
            "group": "network.example.com", "scope": "Namespaced",
            "names": {"kind": "VPC", "plural": "vpcs", "singular": "vpc", "shortNames": ["vp"]},
            "versions": [{"name": "v1beta1", "served": true}, {"name": "v1", "served": true, "storage": true}],
        }});
        KindInfo::from_definition(&definition).into_iter().for_each(|kind| kinds.learn(kind));
        for (group, version) in [("", "v1"), ("a.example.com", "v1"), ("b.example.com", "v2")] {
            let list = json!({"resources": [
                {"name": "events", "kind": "Event", "namespaced": true},
                {"name": "things", "kind": "Thing", "namespaced": group.is_empty()},
                {"name": "things/status", "kind": "Thing"},
            ]});
            let list = if group.is_empty() { json!({"resources": [list["resources"][0]]}) } else { list };
            let (group, version) = (Group::parse(group).unwrap(), Version::parse(version).unwrap());
            KindInfo::of_discovery(&group, &version, &list).into_iter().for_each(|kind| kinds.learn(kind));
        }
        kinds
    }

    #[test]
    fn a_kind_is_found_by_what_people_call_it() {
        let kinds = kinds();
        for (named, found) in [
            ("vpc", Ok("/apis/network.example.com/v1/vpcs")),
            ("VPC", Ok("/apis/network.example.com/v1/vpcs")),
            ("vp", Ok("/apis/network.example.com/v1/vpcs")),
            ("vpcs.network.example.com", Ok("/apis/network.example.com/v1/vpcs")),
            ("vpcs.v1beta1.network.example.com", Ok("/apis/network.example.com/v1beta1/vpcs")),
            ("events", Ok("/api/v1/events")),
            ("events.b.example.com", Ok("/apis/b.example.com/v2/events")),
            ("things", Err("`things` may be any of things.a.example.com, things.b.example.com")),
            ("vpcs.example.com", Err("there is no kind `vpcs.example.com`")),
            ("", Err("there is no kind ``")),
        ] {
            let told = kinds.find(named).map(|kind| kind.path(None, None));
            assert_eq!(told.as_deref().map_err(Failure::message), found, "{named}");
        }
    }

    #[test]
    fn a_path_can_hold_any_name_that_is_stored() {
        let kind = kinds().find("vpc").unwrap().clone();
        assert_eq!(
            kind.path(Some("ns"), Some("system:a b")),
            "/apis/network.example.com/v1/namespaces/ns/vpcs/system:a%20b"
        );
    }

    #[test]
    fn a_resource_is_guessed_as_api_servers_do() {
        for (kind, resource) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(guess_resource(kind).unwrap().as_str(), resource);
        }
    }

    #[test]
    fn a_resource_that_is_no_plural_of_a_kind_is_not_taken_for_one() {
        for (kind, resource, may_be) in [
            ("Mesh", "meshs", true),
            ("Policy", "policys", true),
            ("Wolf", "wolves", true),
            ("Data", "data", true),
            ("VPC", "vpns", false),
            ("Net", "networks", false),
            ("VPC", "vpcpeerings", false),
        ] {
            assert_eq!(may_be_plural(resource, kind), may_be, "{kind} {resource}");
        }
    }
}
