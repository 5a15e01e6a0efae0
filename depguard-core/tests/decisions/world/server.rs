//! Answers of a world's API server.

use depguard_core::ControlPlane;
use serde_json::{Value, json};

use super::{Kind, Reply, World};

impl World {
    /// Returns the server's error for a field selector by a field that it does not select by.
    pub(super) fn refusal(&self, path: &str) -> Option<Reply> {
        let (field, _) = selector(path.split_once('?')?.1)?;
        // API servers select by scalars only, as the field's schema says.
        let is_scalar =
            |json: &Value| json.pointer(&pointer(&field)).is_none_or(|at| !at.is_array() && !at.is_object());
        // Each server selects by the name.
        if field == "metadata.name" {
            return None;
        }
        let selects = (self.selects)(&field) && self.objects.iter().all(|object| is_scalar(&object.json));
        (!selects)
            .then(|| Reply::Http(400, format!(r#"{{"message":"field label not supported: {field}"}}"#).into_bytes()))
    }

    /// Returns the answer to a GET.
    pub(crate) fn reply(&self, path_and_query: &str) -> Reply {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let (group, rest) = match segments[..] {
            ["api", ref rest @ ..] => ("", rest),
            ["apis", group, ref rest @ ..] => (group, rest),
            _ => return Reply::not_found(),
        };
        if let ("apis.kcp.io", ["v1alpha2", "apibindings"], ControlPlane::Kcp) = (group, rest, self.control_plane) {
            return self.list(self.bindings.iter(), query);
        }
        match (group, rest) {
            ("", ["v1", "namespaces", name]) => return scope(name, self.going.contains(*name)),
            ("core.kcp.io", ["v1alpha1", "logicalclusters", "cluster"]) if self.control_plane == ControlPlane::Kcp => {
                return scope("cluster", self.cluster_going);
            }
            _ => {}
        }
        let kinds: Vec<_> = self.kinds.iter().filter(|kind| kind.group == group).collect();
        let served = |version: &str, resource: &str| {
            kinds.iter().find(|kind| kind.resource == resource && kind.versions.contains(&version)).copied().copied()
        };
        match *rest {
            [] if kinds.is_empty() && !group.is_empty() => Reply::not_found(),
            [] => Reply::ok(&json!({"versions": versions(group, &kinds)})),
            [version] => {
                let kinds = kinds.iter().filter(|kind| kind.versions.contains(&version));
                let resources: Vec<_> = kinds.map(|kind| json!({"name": kind.resource, "kind": kind.kind})).collect();
                Reply::ok(&json!({"resources": resources}))
            }
            [version, resource] => match served(version, resource) {
                Some(kind) => self.list(self.objects_of(kind, None), query),
                None => Reply::not_found(),
            },
            [version, "namespaces", namespace, resource] => match served(version, resource) {
                Some(kind) if kind.namespaced => self.list(self.objects_of(kind, Some(namespace)), query),
                _ => Reply::not_found(),
            },
            [version, "namespaces", namespace, resource, name] => match served(version, resource) {
                Some(kind) if kind.namespaced => self.object(kind, Some(namespace), name),
                _ => Reply::not_served(),
            },
            [version, resource, name] => match served(version, resource) {
                Some(kind) if !kind.namespaced => self.object(kind, None, name),
                _ => Reply::not_served(),
            },
            _ => Reply::not_served(),
        }
    }

    /// Returns the answer to a GET of one object of a kind that is served there. An API server names an absent object
    /// in the details.
    fn object(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Reply {
        let name = decoded(name);
        let mut named = self.objects_of(kind, namespace).filter(|json| json["metadata"]["name"] == *name);
        named.next().map_or_else(|| Reply::no_object(kind, &name), Reply::ok)
    }

    fn objects_of<'w>(&'w self, kind: Kind, namespace: Option<&'w str>) -> impl Iterator<Item = &'w Value> {
        (self.objects.iter())
            .filter(move |object| (object.kind.group, object.kind.resource) == (kind.group, kind.resource))
            .map(|object| &object.json)
            .filter(move |json| namespace.is_none_or(|namespace| json["metadata"]["namespace"] == namespace))
    }

    /// Returns a page of a list. The continue token has characters that a URL may not hold, so only an encoded token
    /// comes back whole.
    fn list<'w>(&self, items: impl Iterator<Item = &'w Value>, query: &str) -> Reply {
        let parameter =
            |name: &str| query.split('&').find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='));
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).expect("a limit");
        let start = match parameter("continue") {
            None => 0,
            Some(token) => match token.strip_suffix("%2B%2F%3D%26%23").and_then(|start| start.parse().ok()) {
                Some(start) => start,
                None => return Reply::Http(400, Vec::new()),
            },
        };
        let selector = selector(query);
        let selected = |json: &&Value| match &selector {
            None => true,
            Some((field, value)) => {
                json.pointer(&format!("/{}", field.replace('.', "/"))).is_some_and(|at| at == value)
            }
        };
        let items: Vec<_> = items.filter(selected).skip(start).collect();
        let size = self.page.min(limit).min(items.len());
        let mut metadata = json!({"resourceVersion": "7"});
        if size < items.len() {
            metadata["continue"] = format!("{}+/=&#", start + size).into();
        }
        if query.contains("includeObject=None") {
            return Reply::ok(&self.table(&metadata, &items[..size]));
        }
        Reply::ok(&json!({"kind": "List", "metadata": metadata, "items": items[..size]}))
    }

    fn table(&self, metadata: &Value, items: &[&Value]) -> Value {
        let printed: Vec<_> = PRINTABLE.into_iter().filter(|path| (self.prints)(path)).collect();
        let column = |path: &&str| {
            let description = format!("Custom resource definition column (in JSONPath format): {path}");
            json!({"name": path, "type": "string", "format": "", "description": description})
        };
        let name = json!({"name": "Name", "type": "string", "format": "name", "description": "Name must be unique"});
        let row = |item: &&Value| {
            let cell = |path: &&str| match item.pointer(&path.replace('.', "/")) {
                None | Some(Value::Null) => Value::Null,
                Some(Value::String(text)) => json!(text),
                Some(other) => json!(other.to_string()),
            };
            let cells: Vec<_> =
                std::iter::once(item["metadata"]["name"].clone()).chain(printed.iter().map(cell)).collect();
            json!({"cells": cells, "object": null})
        };
        let columns: Vec<_> = std::iter::once(name).chain(printed.iter().map(column)).collect();
        let rows: Vec<_> = items.iter().map(row).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": columns, "rows": rows,
        })
    }
}

/// Fields that tables may show.
const PRINTABLE: [&str; 4] = [".spec.vpcRef.name", ".spec.configRef", ".spec.ref", ".spec.ref.name"];

/// Returns a segment of a path without its percent-encoding.
fn decoded(segment: &str) -> String {
    let mut parts = segment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).unwrap()
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('.', "/"))
}

/// Returns the field and the value of a field selector. Only the equals sign may be escaped.
fn selector(query: &str) -> Option<(String, String)> {
    let selector = query.split('&').find_map(|parameter| parameter.strip_prefix("fieldSelector="))?;
    let (field, value) = selector.split_once("%3D")?;
    Some((field.to_owned(), decoded(value)))
}

/// Returns a namespace, or the logical cluster.
fn scope(name: &str, going: bool) -> Reply {
    let mut metadata = json!({"name": name, "uid": name});
    if going {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Reply::ok(&json!({"metadata": metadata}))
}

fn versions(group: &str, kinds: &[&Kind]) -> Vec<Value> {
    let mut versions: Vec<_> = kinds.iter().flat_map(|kind| kind.versions).collect();
    versions.sort();
    versions.dedup();
    let version = |version| if group.is_empty() { json!(version) } else { json!({"version": version}) };
    versions.into_iter().map(version).collect()
}
