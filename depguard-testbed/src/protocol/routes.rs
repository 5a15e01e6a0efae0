//! Parses paths of requests.

use http::Method;
use percent_encoding::percent_decode_str;

/// Door through which a request came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// `/clusters/<id or path>`, or the only cluster of a plain Kubernetes.
    Cluster(String),
    /// `/services/apiexport/<cluster>/<export>/clusters/<id or *>`: an export's virtual workspace.
    Export { cluster: String, export: String, target: String },
}

/// Request behind the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// `/healthz`, `/readyz`, `/livez`.
    Health,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`
    Resources {
        group: String,
        version: String,
    },
    Objects(Objects),
}

/// Path of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Ask {
    /// Returns the path behind the door, if the request is about no objects.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Health => "/healthz".to_owned(),
            Self::Version => "/version".to_owned(),
            Self::CoreVersions => "/api".to_owned(),
            Self::Groups => "/apis".to_owned(),
            Self::Group(group) => format!("/apis/{group}"),
            Self::Resources { group, version } | Self::Objects(Objects { group, version, .. }) if group.is_empty() => {
                format!("/api/{version}")
            }
            Self::Resources { group, version } | Self::Objects(Objects { group, version, .. }) => {
                format!("/apis/{group}/{version}")
            }
        }
    }
}

impl Objects {
    /// Returns the resource as RBAC names it: `dependencyrules`, `dependencyrules/status`.
    pub(crate) fn resource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.plural),
            None => self.plural.clone(),
        }
    }

    /// Returns the namespace whose RoleBindings apply. A Namespace lies in itself.
    pub(crate) fn scope(&self) -> Option<&str> {
        let itself = (self.group.is_empty() && self.plural == "namespaces").then_some(self.name.as_deref());
        self.namespace.as_deref().or(itself.flatten())
    }
}

/// Returns the verb of an object request, as RBAC and permission claims name it.
pub(crate) fn verb(method: &Method, objects: &Objects, watch: bool) -> Option<&'static str> {
    Some(match (method, objects.name.is_some()) {
        (&Method::GET, true) => "get",
        (&Method::GET, false) if watch => "watch",
        (&Method::GET, false) => "list",
        (&Method::POST, false) => "create",
        (&Method::POST, true) if objects.subresource.is_some() => "create",
        (&Method::PUT, true) => "update",
        (&Method::PATCH, true) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return None,
    })
}

/// Parses a path. Returns `None` if no path here has this shape.
pub(crate) fn parse(path: &str, kcp: bool) -> Option<(Door, Ask)> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.trim_start_matches('/').trim_end_matches('/').split('/') {
        segments.push(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (door, rest) = match segments.as_slice() {
        ["clusters", cluster, rest @ ..] if kcp => (Door::Cluster((*cluster).to_owned()), rest),
        ["services", "apiexport", cluster, export, "clusters", target, rest @ ..] if kcp => {
            let door = Door::Export {
                cluster: (*cluster).to_owned(),
                export: (*export).to_owned(),
                target: (*target).to_owned(),
            };
            (door, rest)
        }
        rest if kcp => (Door::Cluster("root".to_owned()), rest),
        rest => (Door::Cluster(String::new()), rest),
    };
    Some((door, ask(rest)?))
}

fn ask(segments: &[&str]) -> Option<Ask> {
    Some(match segments {
        ["healthz" | "readyz" | "livez", ..] => Ask::Health,
        ["version"] => Ask::Version,
        ["api"] => Ask::CoreVersions,
        ["apis"] => Ask::Groups,
        // The core group has a root of its own, `/api`.
        ["apis", "", ..] => return None,
        ["apis", group] => Ask::Group((*group).to_owned()),
        ["api", version] => Ask::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => Ask::Resources { group: (*group).to_owned(), version: (*version).to_owned() },
        ["api", version, rest @ ..] => Ask::Objects(objects("", version, rest)?),
        ["apis", group, version, rest @ ..] => Ask::Objects(objects(group, version, rest)?),
        _ => return None,
    })
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Option<Objects> {
    let of_namespace = group.is_empty() && matches!(rest, ["namespaces", _, "status" | "finalize"]);
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !of_namespace => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        [plural, name, subresource] => (plural, Some(name), Some(subresource)),
        _ => return None,
    };
    Some(Objects {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: (*plural).to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.map(|&name| name.to_owned()),
        subresource: subresource.map(|&subresource| subresource.to_owned()),
    })
}

/// Query parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        Self(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// Returns the value of a parameter, unless it is missing or empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value == "true" || value == "1")
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }
}
