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

use crate::cluster::kinds::KindInfo;
use crate::cluster::manifests::Manifests;
use crate::cluster::object_text::ObjectText;
use crate::io::exit::Failure;

mod stored_object;

use self::stored_object::{PrintedField, PrintedFields, StoredObject};

/// Objects of one cluster, by their kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfflineServer {
    kinds: BTreeMap<GroupResource, Kind>,
}

/// Versions and scope of a served kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    /// Versions, each with the fields that its schema makes selectable: `spec.vpcRef.name`.
    pub(crate) versions: BTreeMap<Version, BTreeSet<String>>,
    /// True if the objects of the kind are in namespaces.
    pub(crate) namespaced: bool,
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
        self.serve(kind.gvr.group_resource(), Served { versions, namespaced: kind.namespaced == Some(true) });
    }

    /// Serves a kind. Its earlier versions, fields and objects stay.
    pub(crate) fn serve(&mut self, kind: GroupResource, served: Served) {
        let known = &mut self.kinds.entry(kind).or_default().served;
        known.namespaced |= served.namespaced;
        for (version, fields) in served.versions {
            known.versions.entry(version).or_default().extend(fields);
        }
    }

    /// Adds an object of a kind. The server shows the object once the kind is [served](Self::serve).
    fn insert(&mut self, kind: GroupResource, object: StoredObject) {
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

    /// Answers a GET of a path and query.
    ///
    /// `deleted` is the object whose deletion is judged. Lists leave it out, as an object never holds itself, and
    /// manifests carry no UID by which the engine could recognise it.
    pub(crate) fn get(&self, path_and_query: &str, accept: Accept, deleted: &Arc<Value>) -> Reply {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", rest @ ..] => ("", rest),
            ["apis", group, rest @ ..] => (*group, rest),
            _ => return Reply::not_found(""),
        };
        if let ("", ["v1", "namespaces", name]) = (group, rest) {
            return self.namespace(name);
        }
        match rest {
            [] => self.group(group),
            [version] => self.version(group, version),
            [version, resource] => match self.served(group, version, resource) {
                Some((kind, fields)) => kind.list(fields, None, query, accept, deleted),
                None => Reply::not_found(""),
            },
            [version, "namespaces", namespace, resource] => match self.served(group, version, resource) {
                Some((kind, fields)) if kind.served.namespaced => {
                    kind.list(fields, Some(namespace), query, accept, deleted)
                }
                _ => Reply::not_found(""),
            },
            [version, "namespaces", namespace, resource, name] => {
                let kind = self.served(group, version, resource).map(|(kind, _)| kind);
                kind.map_or_else(|| Reply::not_found(""), |kind| kind.object(Some(namespace), name))
            }
            [version, resource, name] => {
                let kind = self.served(group, version, resource).map(|(kind, _)| kind);
                kind.map_or_else(|| Reply::not_found(""), |kind| kind.object(None, name))
            }
            _ => Reply::not_found(""),
        }
    }

    fn served(&self, group: &str, version: &str, resource: &str) -> Option<(&Kind, &BTreeSet<String>)> {
        let mut kinds = self.kinds.iter();
        let (_, kind) = kinds.find(|(kind, _)| kind.group.as_str() == group && kind.resource.as_str() == resource)?;
        Some((kind, kind.served.versions.get(version)?))
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
            return Reply::not_found("");
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
            .map(|(name, kind)| json!({"name": name.resource.as_str(), "namespaced": kind.served.namespaced}))
            .collect();
        if resources.is_empty() {
            return Reply::not_found("");
        }
        Reply::ok(&json!({"kind": "APIResourceList", "resources": resources}))
    }

    /// Returns a namespace. A namespace without a manifest exists all the same: an object is in it.
    fn namespace(&self, name: &str) -> Reply {
        let mut kinds = self.of_group("").filter(|(kind, _)| kind.resource.as_str() == "namespaces");
        let given = kinds.find_map(|(_, kind)| kind.find(None, name));
        given.map_or_else(|| Reply::ok(&json!({"metadata": {"name": name}})), Reply::object)
    }
}

impl Kind {
    fn find(&self, namespace: Option<&str>, name: &str) -> Option<&StoredObject> {
        self.objects.iter().find(|object| &*object.name == name && object.namespace() == namespace)
    }

    fn object(&self, namespace: Option<&str>, name: &str) -> Reply {
        self.find(namespace, name).map_or_else(|| Reply::not_found(name), Reply::object)
    }

    /// Returns one page of a list. The continue token is the number of objects on the pages before.
    fn list(
        &self,
        selectable: &BTreeSet<String>,
        namespace: Option<&str>,
        query: &str,
        accept: Accept,
        deleted: &Arc<Value>,
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
        let deleted = ObjectText::new(deleted);
        let is_selected = |index: usize| match &selected {
            None => true,
            Some((printed, value)) => printed.get(index).is_some_and(|own| own.as_deref() == Some(value)),
        };
        let objects = self.objects.iter().enumerate().filter(|(index, object)| {
            namespace.is_none_or(|namespace| object.namespace() == Some(namespace))
                && is_selected(*index)
                && object.text != deleted
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

    /// Builds a 404 for the object of this name; an empty name means that nothing of the kind can exist.
    fn not_found(name: &str) -> Self {
        let message = match name {
            "" => "the server could not find the requested resource".to_owned(),
            name => format!("\"{name}\" not found"),
        };
        let status = json!({
            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": message,
            "details": {"name": name},
        });
        Self { status: 404, body: status.to_string().into_bytes() }
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
mod tests {
    use depguard_core::Group;
    use depguard_core::model::Resource;

    use super::*;

    fn vms() -> GroupResource {
        GroupResource { group: Group::parse("g.example.com").unwrap(), resource: Resource::parse("vms").unwrap() }
    }

    fn stored(object: &Value) -> StoredObject {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
        let (name, namespace) = (text("name"), text("namespace"));
        StoredObject { name, namespace, text: ObjectText::new(&Arc::new(object.clone())) }
    }

    fn answers(fields: &[&str], objects: usize) -> OfflineServer {
        let mut answers = OfflineServer::default();
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let versions = [(Version::parse("v1").unwrap(), fields)].into();
        answers.serve(vms(), Served { versions, namespaced: true });
        for index in 0..objects {
            let namespace = if index % 2 == 0 { "even" } else { "odd" };
            let object = json!({
                "metadata": {"name": format!("m{index}"), "namespace": namespace}, "spec": {"vpc": format!("a,{}", index % 3)},
            });
            answers.insert(vms(), stored(&object));
        }
        answers
    }

    fn get(answers: &OfflineServer, path: &str, accept: Accept) -> (u16, Value) {
        let reply = answers.get(path, accept, &Arc::new(Value::Null));
        (reply.status, serde_json::from_slice(&reply.body).unwrap())
    }

    fn names(list: &Value) -> Vec<&str> {
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_list_comes_page_by_page_and_each_object_once() {
        let answers = answers(&[], 7);
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let (status, page) = get(&answers, &format!("/apis/g.example.com/v1/vms?limit=3{token}"), Accept::Json);
            assert_eq!((status, &page["metadata"]["resourceVersion"]), (200, &json!("1")));
            seen.extend(names(&page).into_iter().map(str::to_owned));
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = format!("&continue={next}"),
                None => break,
            }
        }
        assert_eq!(seen, (0..7).map(|index| format!("m{index}")).collect::<Vec<_>>());
        let (_, page) = get(&answers, "/apis/g.example.com/v1/namespaces/odd/vms?limit=500", Accept::Metadata);
        assert_eq!(names(&page), ["m1", "m3", "m5"]);
        assert_eq!(page["items"][0].get("spec"), None);
    }

    #[test]
    fn a_field_is_selected_by_only_where_the_schema_says_so() {
        let query = "?fieldSelector=spec.vpc%3Da%5C%2C1&limit=500";
        let (_, page) = get(&answers(&["spec.vpc"], 5), &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
        assert_eq!(names(&page), ["m1", "m4"]);
        let refused = get(&answers(&[], 5), &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
        assert_eq!((refused.0, &refused.1["message"]), (400, &json!("field label not supported: spec.vpc")));
        // What is removed after a selection shifts no field to another object.
        let mut fewer = answers(&["spec.vpc"], 5);
        get(&fewer, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
        let first = get(&fewer, "/apis/g.example.com/v1/namespaces/odd/vms/m1", Accept::Json).1;
        fewer.remove(&vms(), &Arc::new(first));
        let (_, page) = get(&fewer, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
        assert_eq!(names(&page), ["m4"]);
        let mut lists = answers(&["spec.vpc"], 1);
        lists.insert(vms(), stored(&json!({"metadata": {"name": "l"}, "spec": {"vpc": ["a"]}})));
        assert_eq!(get(&lists, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json).0, 400);
    }

    #[test]
    fn what_is_not_there_is_told_as_a_server_tells_it() {
        let answers = answers(&[], 1);
        for (path, status) in [
            ("/apis/g.example.com/v1/namespaces/even/vms/m0", 200),
            ("/apis/g.example.com/v1/namespaces/odd/vms/m0", 404),
            ("/apis/g.example.com/v2/vms?limit=1", 404),
            ("/apis/g.example.com/v1/disks?limit=1", 404),
            ("/apis/g.example.com", 200),
            ("/apis/g.example.com/v1", 200),
            ("/apis/other.example.com", 404),
            ("/api", 200),
            ("/api/v1/namespaces/unheard-of", 200),
            ("/apis/g.example.com/v1/vms?limit=x", 400),
            ("/elsewhere", 404),
            ("", 404),
        ] {
            assert_eq!(get(&answers, path, Accept::Json).0, status, "{path}");
        }
        assert_eq!(get(&answers, "/apis/g.example.com/v1/vms?limit=1", Accept::Table).0, 406);
        let gone = get(&answers, "/apis/g.example.com/v1/namespaces/even/vms/m9", Accept::Json).1;
        assert_eq!(gone["details"]["name"], "m9");
    }

    #[test]
    fn the_object_that_is_deleted_is_not_among_its_dependents() {
        let mut answers = answers(&[], 2);
        let deleted = Arc::new(json!({"metadata": {"name": "it", "namespace": "odd"}}));
        answers.insert(vms(), stored(&deleted));
        let reply = answers.get("/apis/g.example.com/v1/vms?limit=9", Accept::Json, &deleted);
        assert_eq!(names(&serde_json::from_slice(&reply.body).unwrap()), ["m0", "m1"]);
    }
}
