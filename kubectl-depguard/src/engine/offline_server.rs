//! API server in memory. It answers an evaluation's queries from objects in memory, so that the webhook's own engine
//! judges manifests on disk, with its pages, selectors and fallbacks.
//!
//! The server is a plain cluster. All versions of a kind show the same objects, as if a CRD converted nothing. Kinds
//! that the server was not given are not served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::model::{GroupResource, Version};
use depguard_core::protocol::Accept;
use serde_json::{Map, Value, json};

use crate::cluster::kinds::{KindInfo, resource_name};
use crate::cluster::manifests::Manifests;
use crate::cluster::object_text::ObjectText;
use crate::io::exit::Failure;

mod stored_object;

use self::stored_object::{PrintedField, PrintedFields, StoredObject};

/// Objects of one cluster, by their kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfflineServer {
    kinds: BTreeMap<GroupResource, Kind>,
    /// Namespaces in which an object was put.
    namespaces: BTreeSet<Box<str>>,
}

/// Versions and scope of a served kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    /// Versions, each with the fields that its schema makes selectable: `spec.vpcRef.name`.
    pub(crate) versions: BTreeMap<Version, BTreeSet<String>>,
    /// True if the objects of the kind are in namespaces.
    pub(crate) namespaced: bool,
    /// The kind; empty while nothing tells it.
    pub(crate) kind: String,
}

#[derive(Debug, Clone, Default)]
struct Kind {
    served: Served,
    objects: Vec<StoredObject>,
    printed: PrintedFields,
}

/// HTTP response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Resource version of all lists.
const REVISION: &str = "1";

impl OfflineServer {
    /// Builds the server from all manifests. A kind with a definition is served as its definition says; another kind is
    /// served in each version in which anything names it.
    pub(crate) fn from_manifests(manifests: &Manifests) -> Result<Self, Failure> {
        let mut answers = Self::default();
        for definition in manifests.definitions() {
            for kind in KindInfo::from_definition(&definition.value) {
                let fields = selectable(&definition.value, &kind.gvr.version);
                answers.serve_kind(&kind, fields);
            }
        }
        let defined: BTreeSet<_> = answers.kinds.keys().cloned().collect();
        for kind in manifests.kinds().iter().filter(|kind| !defined.contains(&kind.gvr.group_resource())) {
            answers.serve_kind(kind, BTreeSet::new());
        }
        for object in manifests.objects() {
            let kind = object.gvr.group_resource();
            if !defined.contains(&kind) && object.namespace().is_some() {
                answers.serve(kind.clone(), Served { namespaced: true, ..Served::default() });
            }
            answers.insert(kind, StoredObject::from_manifest(object)?);
        }
        Ok(answers)
    }

    fn serve_kind(&mut self, kind: &KindInfo, fields: BTreeSet<String>) {
        let versions = [(kind.gvr.version.clone(), fields)].into();
        let (namespaced, named) = (kind.namespaced == Some(true), kind.kind.clone());
        self.serve(kind.gvr.group_resource(), Served { versions, namespaced, kind: named });
    }

    /// Serves a kind. Its earlier versions, fields and objects stay.
    pub(crate) fn serve(&mut self, kind: GroupResource, served: Served) {
        let known = &mut self.kinds.entry(kind).or_default().served;
        known.namespaced |= served.namespaced;
        if known.kind.is_empty() {
            known.kind = served.kind;
        }
        for (version, fields) in served.versions {
            known.versions.entry(version).or_default().extend(fields);
        }
    }

    /// Adds an object of a kind. The server shows the object once the kind is [served](Self::serve).
    fn insert(&mut self, kind: GroupResource, object: StoredObject) {
        if object.namespace().is_some_and(|namespace| !self.namespaces.contains(namespace)) {
            self.namespaces.insert(object.namespace.clone());
        }
        let kind = self.kinds.entry(kind).or_default();
        kind.objects.push(object);
        kind.printed = PrintedFields::default();
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, kind: &GroupResource, object: &Arc<Value>) {
        let object = ObjectText::new(object);
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.objects.retain(|known| known.text != object);
            kind.printed = PrintedFields::default();
        }
    }

    /// Returns true if there is an object of this kind, namespace and name.
    pub(crate) fn has(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.find(namespace, name).is_some())
    }

    /// Answers a GET of a path and query.
    ///
    /// `deleted` is the object whose deletion is judged. Lists leave it out, as an object never holds itself, and
    /// manifests carry no UID by which the engine could recognise it.
    pub(crate) fn get(&self, path_and_query: &str, accept: Accept, deleted: Option<&Arc<Value>>) -> Reply {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", rest @ ..] => ("", rest),
            ["apis", group, rest @ ..] => (*group, rest),
            _ => return Reply::no_page(),
        };
        if let ("", ["v1", "namespaces", name]) = (group, rest) {
            return self.namespace(name);
        }
        match rest {
            [] => self.group(group),
            [version] => self.version(group, version),
            [version, resource] => match self.served(group, version, resource) {
                Some((kind, fields)) => kind.list(fields, None, query, accept, deleted),
                None => Reply::no_page(),
            },
            [version, "namespaces", namespace, resource] => match self.served(group, version, resource) {
                Some((kind, fields)) if kind.served.namespaced => {
                    kind.list(fields, Some(namespace), query, accept, deleted)
                }
                _ => Reply::no_page(),
            },
            [version, "namespaces", namespace, resource, name] => {
                self.object(group, version, resource, Some(namespace), name)
            }
            [version, resource, name] => self.object(group, version, resource, None, name),
            _ => Reply::no_page(),
        }
    }

    fn served(&self, group: &str, version: &str, resource: &str) -> Option<(&Kind, &BTreeSet<String>)> {
        let mut kinds = self.kinds.iter();
        let (_, kind) = kinds.find(|(kind, _)| kind.group.as_str() == group && kind.resource.as_str() == resource)?;
        Some((kind, kind.served.versions.get(version)?))
    }

    /// Returns one object. The path names a namespace exactly if the objects of the kind are in namespaces.
    fn object(&self, group: &str, version: &str, resource: &str, namespace: Option<&str>, name: &str) -> Reply {
        match self.served(group, version, resource) {
            Some((kind, _)) if kind.served.namespaced == namespace.is_some() => {
                kind.find(namespace, name).map_or_else(|| Reply::not_found(group, resource, name), Reply::object)
            }
            _ => Reply::no_page(),
        }
    }

    fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a GroupResource, &'a Kind)> {
        self.kinds.iter().filter(move |(kind, _)| kind.group.as_str() == group)
    }

    fn group(&self, group: &str) -> Reply {
        let versions: BTreeSet<_> =
            self.of_group(group).flat_map(|(_, kind)| kind.served.versions.keys()).map(Version::as_str).collect();
        if group.is_empty() {
            return Reply::ok(&json!({"kind": "APIVersions", "versions": versions}));
        }
        if versions.is_empty() {
            return Reply::no_page();
        }
        let versions: Vec<_> = versions
            .into_iter()
            .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
            .collect();
        Reply::ok(&json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions}))
    }

    fn version(&self, group: &str, version: &str) -> Reply {
        let kinds = self.of_group(group).filter(|(_, kind)| kind.served.versions.contains_key(version));
        let resources: Vec<_> = kinds
            .map(|(name, kind)| {
                json!({"name": name.resource.as_str(), "kind": kind.served.kind, "namespaced": kind.served.namespaced})
            })
            .collect();
        if resources.is_empty() {
            return Reply::no_page();
        }
        Reply::ok(&json!({"kind": "APIResourceList", "resources": resources}))
    }

    /// Returns a namespace. A namespace without a manifest exists all the same if an object is in it.
    fn namespace(&self, name: &str) -> Reply {
        let mut kinds = self.of_group("").filter(|(kind, _)| kind.resource.as_str() == "namespaces");
        match kinds.find_map(|(_, kind)| kind.find(None, name)) {
            Some(given) => Reply::object(given),
            None if self.namespaces.contains(name) => Reply::ok(&json!({"metadata": {"name": name}})),
            None => Reply::not_found("", "namespaces", name),
        }
    }
}

impl Kind {
    fn find(&self, namespace: Option<&str>, name: &str) -> Option<&StoredObject> {
        self.objects.iter().find(|object| &*object.name == name && object.namespace() == namespace)
    }

    /// Returns one page of a list. The continue token is the number of objects on the pages before.
    fn list(
        &self,
        selectable: &BTreeSet<String>,
        namespace: Option<&str>,
        query: &str,
        accept: Accept,
        deleted: Option<&Arc<Value>>,
    ) -> Reply {
        if accept == Accept::Table {
            return Reply::refused(406, "tables are not printed here");
        }
        let parameters: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name| match parameters.get(name) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| Reply::refused(400, "that is no number")),
        };
        let (limit, start) = match (number("limit"), number("continue")) {
            (Ok(limit), Ok(start)) => (limit.filter(|limit| *limit > 0), start.unwrap_or_default()),
            (Err(refused), _) | (_, Err(refused)) => return refused,
        };
        let selected = match parameters.get("fieldSelector").map(|text| self.selector(selectable, text)) {
            None => None,
            Some(Ok(selected)) => Some(selected),
            Some(Err(refused)) => return refused,
        };
        let deleted = deleted.map(ObjectText::new);
        let is_selected = |index: usize| match &selected {
            None => true,
            Some((printed, value)) => printed.get(index).is_some_and(|own| own.as_deref() == Some(value)),
        };
        let objects = self.objects.iter().enumerate().filter(|(index, object)| {
            namespace.is_none_or(|namespace| object.namespace() == Some(namespace))
                && is_selected(*index)
                && deleted.as_ref() != Some(&object.text)
        });
        let mut objects = objects.map(|(_, object)| object);
        let items: Vec<_> = objects.by_ref().skip(start).take(limit.unwrap_or(usize::MAX)).collect();
        let mut metadata = Map::from_iter([("resourceVersion".to_owned(), json!(REVISION))]);
        if objects.next().is_some() {
            metadata.insert("continue".to_owned(), start.saturating_add(items.len()).to_string().into());
        }
        if accept == Accept::Json {
            let items: Vec<_> = items.iter().map(|item| item.text.json()).collect();
            let (items, metadata) = (items.join(","), Value::Object(metadata));
            let list = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{items}]}}"#);
            return Reply { status: 200, body: list.into_bytes() };
        }
        let bare = |item: &&StoredObject| {
            let object = item.text.to_value()?;
            Ok(json!({"kind": "PartialObjectMetadata", "metadata": object.get("metadata")}))
        };
        match items.iter().map(bare).collect::<Result<Vec<_>, _>>() {
            Ok(items) => Reply::ok(&json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})),
            Err(why) => Reply::failed(&why),
        }
    }

    /// Reads a field selector, which is one field and its value. Returns the field of each object, and the value. A field
    /// that the server can't select by is refused.
    fn selector(&self, selectable: &BTreeSet<String>, text: &str) -> Result<(PrintedField, String), Reply> {
        let Some((field, value)) = text.split_once('=').and_then(|(field, value)| Some((field, unescaped(value)?)))
        else {
            return Err(Reply::refused(400, &format!("invalid selector: '{text}'")));
        };
        let known = field == "metadata.name"
            || field == "metadata.namespace" && self.served.namespaced
            || selectable.contains(field);
        let not_supported = || Reply::refused(400, &format!("field label not supported: {field}"));
        if !known {
            return Err(not_supported());
        }
        let printed = self.printed.get(field, &self.objects).map_err(|why| Reply::failed(&why))?;
        // A server validates objects against a schema, in which a selectable field is a scalar. These objects were
        // never validated.
        if printed.iter().any(Option::is_none) {
            return Err(not_supported());
        }
        Ok((printed, value))
    }
}

impl Reply {
    fn ok(body: &Value) -> Self {
        Self { status: 200, body: body.to_string().into_bytes() }
    }

    fn object(object: &StoredObject) -> Self {
        Self { status: 200, body: object.text.json().into_owned().into_bytes() }
    }

    fn failed(why: &Failure) -> Self {
        Self::refused(500, why.message())
    }

    /// Builds a 404 for a served kind that has no object of this name.
    fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": format!("{} \"{name}\" not found", resource_name(resource, group)),
            "details": {"group": group, "kind": resource, "name": name},
        });
        Self { status: 404, body: status.to_string().into_bytes() }
    }

    /// Builds a 404 for a path that the server doesn't have, such as that of a kind that is not served.
    fn no_page() -> Self {
        Self { status: 404, body: b"404 page not found\n".to_vec() }
    }

    fn refused(status: u16, message: &str) -> Self {
        let body = json!({"kind": "Status", "status": "Failure", "code": status, "message": message});
        Self { status, body: body.to_string().into_bytes() }
    }
}

/// Returns the fields that a definition makes selectable in a version.
fn selectable(definition: &Value, version: &Version) -> BTreeSet<String> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let named = |found: &&Value| found.get("name").is_some_and(|name| name == version.as_str());
    let fields = versions.filter(named).filter_map(|found| found.get("selectableFields")?.as_array()).flatten();
    let path = |field: &Value| Some(field.get("jsonPath")?.as_str()?.trim_start_matches('.').to_owned());
    fields.filter_map(path).collect()
}

/// Unescapes a value, in which `\` stands before each `\`, `,` and `=`; `None` if the selector goes on behind the
/// value.
fn unescaped(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next()?),
            ',' | '=' => return None,
            letter => plain.push(letter),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests;
