//! Manifests read as one cluster in which every export is bound.

mod completion;
mod duplicates;
mod object;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use depguard_core::applicability::RuleGrants;
use depguard_core::model::{GroupResource, Namespace, Version};
use depguard_core::{ControlPlane, Group, GroupVersionResource, Workspaces, api};
use serde_json::Value;

use self::completion::Completion;
use self::duplicates::{Differing, once};
pub(crate) use self::object::ManifestObject;
use self::object::Place;
use crate::cluster::built_in_kinds::{self, scope_of};
use crate::cluster::documents::{Document, text};
use crate::cluster::files::{Files, skipped};
use crate::cluster::kinds::{KindInfo, Kinds, guess_resource, may_be_plural};
use crate::cluster::object_record::{ObjectRecord, ObjectType, Role, SharedNames};
use crate::cluster::rule_flaws;
use crate::cluster::rule_manifests::{ends_of, everywhere_bound, kind_of, mistake, named_by};
use crate::cluster::rules::{Reach, ReadFailure, Rules, targets_of};
use crate::io::exit::Failure;

/// Content of the manifest files, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manifests {
    rules: Vec<Arc<Value>>,
    definitions: Vec<Document>,
    objects: Vec<ManifestObject>,
    kinds: Kinds,
    unread: Vec<ReadFailure>,
    remarks: Vec<String>,
    surroundings: Surroundings,
}

/// Kinds and rules beside the files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// Kinds that an API server serves. A definition in the files counts before them.
    pub(crate) kinds: Kinds,
    /// Rules that are not in the files but apply to their objects.
    pub(crate) rules: Vec<Arc<Value>>,
}

impl Manifests {
    /// Sorts documents into rules, definitions of kinds, and objects. An object that names no namespace is in
    /// `namespace`.
    pub(crate) fn new(documents: &[Document], namespace: &Namespace) -> Result<Self, Failure> {
        let mut names = SharedNames::default();
        Self::from_records(
            documents.iter().map(|document| ObjectRecord::new(document, &mut names)).collect(),
            namespace,
            Surroundings::default(),
        )
    }

    /// Builds the manifests from files, some of which can't be read or hold no manifests.
    pub(crate) fn from_files(files: Files, namespace: &Namespace, surroundings: Surroundings) -> Result<Self, Failure> {
        let Files { records, unread, others } = files;
        let (records, differing) = once(records, namespace);
        let mut manifests = Self::from_records(records, namespace, surroundings)?;
        manifests.unread.splice(0..0, unread);
        manifests.remarks.splice(0..0, others.iter().map(|file| skipped(file)));
        differing.iter().for_each(|object| manifests.doubt_one_of(object));
        Ok(manifests)
    }

    fn from_records(
        records: Vec<ObjectRecord>,
        namespace: &Namespace,
        surroundings: Surroundings,
    ) -> Result<Self, Failure> {
        let mut manifests = Self { kinds: Kinds::with_built_in(), surroundings, ..Self::default() };
        let mut rules = Vec::new();
        for record in &records {
            let is_known = || record.object_type.api_version == format!("{}/{}", api::GROUP, api::VERSION);
            match record.object_type.role {
                Role::Rule if is_known() => rules.push(record.to_document()?),
                Role::Rule => manifests.unread.push(mistake(&record.to_document()?)),
                Role::Mistake | Role::Definition | Role::Object => {}
            }
        }
        for record in &records {
            match record.object_type.role {
                Role::Mistake => manifests.unread.push(mistake(&record.to_document()?)),
                Role::Definition => manifests.define(record.to_document()?),
                Role::Rule | Role::Object => {}
            }
        }
        for kind in manifests.surroundings.kinds.iter() {
            manifests.kinds.learn(kind.clone());
        }
        for rule in rules {
            let value = Arc::new(everywhere_bound(&rule.value));
            named_by(&value).into_iter().for_each(|kind| manifests.kinds.learn(kind));
            manifests.rules.push(value);
        }
        manifests.place_all(records, namespace)?;
        manifests.fill_in(namespace);
        manifests.number_generated();
        Ok(manifests)
    }

    /// Returns notes about the files, to print before anything else.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Adds the namespace to objects of a kind whose scope is unknown: if one object of the kind names a namespace, all
    /// have one, and the others are in `namespace`.
    fn fill_in(&mut self, namespace: &Namespace) {
        let with_one: BTreeSet<_> =
            self.objects.iter().filter(|object| object.namespace().is_some()).map(|object| &object.gvr).collect();
        let is_of_known_scope = |kind: &GroupResource| {
            let known = self.kinds.of(kind);
            known.is_some_and(|known| known.namespaced.or(scope_of(kind.group.as_str(), &known.kind)).is_some())
        };
        let namespaced: BTreeSet<_> =
            with_one.into_iter().map(|gvr| gvr.group_resource()).filter(|kind| !is_of_known_scope(kind)).collect();
        if namespaced.is_empty() {
            return;
        }
        let namespace = Arc::from(namespace.as_str());
        for object in self.objects.iter_mut().filter(|object| namespaced.contains(&object.gvr.group_resource())) {
            object.fill_in(&namespace);
        }
    }

    /// Numbers the objects of one generated name, from the second on: the API server gives each its own.
    fn number_generated(&mut self) {
        let mut numbers = HashMap::new();
        for object in self.objects.iter_mut().filter(|object| object.name().ends_with('*')) {
            let name = (object.gvr.group_resource(), object.namespace().map(str::to_owned), object.name().to_owned());
            let number =
                numbers.entry(name).and_modify(|number: &mut usize| *number = number.saturating_add(1)).or_insert(1);
            if *number > 1 {
                object.number(*number);
            }
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            control_plane: ControlPlane::Kubernetes,
            objects: self.rules.clone(),
            workspaces: Workspaces::new(),
            rule_grants: RuleGrants::default(),
            bound: None,
            unread: self.unread.clone(),
            flawed: rule_flaws::found(&self.rules, &self.definitions, |kind| self.objects_of(kind).next().is_some()),
        }
    }

    /// Returns true if the files are read for an API server.
    pub(crate) fn are_beside_a_server(&self) -> bool {
        self.surroundings.kinds.iter().next().is_some()
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Returns the CustomResourceDefinitions and APIResourceSchemas.
    pub(crate) fn definitions(&self) -> &[Document] {
        &self.definitions
    }

    /// Returns every object except rules.
    pub(crate) fn objects(&self) -> &[ManifestObject] {
        &self.objects
    }

    /// Returns every object of a kind.
    pub(crate) fn objects_of(&self, kind: &GroupResource) -> impl Iterator<Item = &ManifestObject> {
        self.objects.iter().filter(|object| object.is_of(kind))
    }

    /// Returns an object beside the manifests, with its kind and namespace as if it were one of them; `None` if there can
    /// be no such kind.
    pub(crate) fn place_beside(&self, document: &Document, namespace: &Namespace) -> Option<ManifestObject> {
        let record = ObjectRecord::new(document, &mut SharedNames::default());
        let known = self.kind_named(&record.object_type.api_version, &record.object_type.kind)?;
        let mut place = self.place_of(known, &record.object_type);
        let kind = place.gvr.group_resource();
        if place.namespaced.is_none() && self.objects_of(&kind).any(|object| object.namespace().is_some()) {
            place.namespaced = Some(true);
        }
        place.put(record, &Arc::from(namespace.as_str())).ok()
    }

    fn place_of(&self, known: KindInfo, object_type: &ObjectType) -> Place {
        // The kind may come from a rule, which doesn't say the scope.
        let namespaced = known.namespaced.or_else(|| scope_of(known.gvr.group.as_str(), &known.kind));
        let completion = Completion::of(object_type, &self.definitions).map(Arc::new);
        Place { gvr: Arc::new(known.gvr), namespaced, completion }
    }

    /// Returns the kinds of the rules' dependents and targets.
    fn ends(&self) -> BTreeSet<GroupResource> {
        let rules = self.rules.iter().chain(&self.surroundings.rules).filter_map(|rule| rule.get("spec"));
        rules.flat_map(ends_of).filter_map(|end| kind_of(end).map(|gvr| gvr.group_resource())).collect()
    }

    /// Returns the kinds to which objects of a kind refer by the rules.
    fn referred_to_by(&self, kind: &GroupResource) -> BTreeSet<GroupResource> {
        let is_of = |rule: &&Arc<Value>| {
            let dependent = rule.pointer("/spec/dependent").and_then(kind_of);
            dependent.is_none_or(|dependent| dependent.group_resource() == *kind)
        };
        self.rules.iter().chain(&self.surroundings.rules).filter(is_of).flat_map(|rule| targets_of(rule)).collect()
    }

    fn define(&mut self, definition: Document) {
        KindInfo::from_definition(&definition.value).into_iter().for_each(|kind| self.kinds.learn(kind));
        self.definitions.push(definition);
    }

    /// Reports an object that can't be placed: if a rule names its kind, its references are unknown.
    fn pass_over(&mut self, document: &Document, ends: &BTreeSet<GroupResource>) {
        let own = |field| text(&document.value, field).unwrap_or_default();
        let why = match document.value.pointer("/metadata/name") {
            Some(Value::String(name)) if !name.is_empty() => "its apiVersion and kind are not valid",
            Some(name) if !name.is_string() => "its name is not a string: write it in quotes",
            _ => "it has no name",
        };
        let what = document.shown();
        let kind = self.kind_named(own("apiVersion"), own("kind"));
        if let Some(kind) = kind.map(|kind| kind.gvr.group_resource()).filter(|kind| ends.contains(kind)) {
            let reach = Reach::These(self.referred_to_by(&kind));
            self.unread.push(ReadFailure { what, why: why.to_owned(), reach });
        } else {
            self.remarks.push(format!("skipped {what}: {why}"));
        }
    }

    /// Reports an object that differs in two places: a patch of kustomize has few of the object's references, and an overlay
    /// others. If a rule is about the kind, what the object refers to is unknown.
    fn doubt_one_of(&mut self, Differing { object_type, name, first, last }: &Differing) {
        let ObjectType { api_version, kind, .. } = &**object_type;
        let known = self.kind_named(api_version, kind).map(|known| known.gvr.group_resource());
        let targets = known.map(|kind| self.referred_to_by(&kind)).unwrap_or_default();
        if targets.is_empty() {
            self.remarks.push(format!("{kind}/{name} differs in {first} and {last}; the last one counts"));
            return;
        }
        let why = format!(
            "it differs in {first} and {last}; name the files of one of them with -f, or what `kustomize build` prints"
        );
        self.unread.push(ReadFailure { what: format!("{kind}/{name}"), why, reach: Reach::These(targets) });
    }

    /// Returns the kind of objects with this `apiVersion` and `kind`; `None` if there can be no such kind.
    fn kind_named(&self, api_version: &str, kind: &str) -> Option<KindInfo> {
        if let Some(known) = self.kinds.of_object(api_version, kind) {
            return Some(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (group, version) = (Group::parse(group).ok()?, Version::parse(version).ok()?);
        if let Some(built_in) = built_in_kinds::of_kind(group.as_str(), kind) {
            return Some(built_in.in_version(version));
        }
        let scope = scope_of(group.as_str(), kind);
        let gvr = GroupVersionResource { group, version, resource: guess_resource(kind)? };
        Some(KindInfo::bare(gvr, kind, scope))
    }

    /// Finds the kind and the namespace of each object. Objects without a name, or of an impossible kind, are passed
    /// over.
    fn place_all(&mut self, records: Vec<ObjectRecord>, namespace: &Namespace) -> Result<(), Failure> {
        let (ends, namespace) = (self.ends(), Arc::from(namespace.as_str()));
        let mut places: HashMap<Arc<ObjectType>, Option<Place>> = HashMap::new();
        for record in records {
            if matches!(record.object_type.role, Role::Rule | Role::Mistake) {
                continue;
            }
            let place = match places.get(&record.object_type) {
                Some(known) => known.clone(),
                None => {
                    let place = self.place(&record.object_type, &ends);
                    places.insert(Arc::clone(&record.object_type), place.clone());
                    place
                }
            };
            let put = match place {
                Some(place) => place.put(record, &namespace),
                None => Err(record),
            };
            match put {
                Ok(object) => self.objects.push(object),
                Err(record) => self.pass_over(&record.to_document()?, &ends),
            }
        }
        Ok(())
    }

    /// Finds the kind of objects with such a type; `None` if there can be no such kind.
    fn place(&mut self, object_type: &ObjectType, ends: &BTreeSet<GroupResource>) -> Option<Place> {
        let ObjectType { api_version, kind, .. } = object_type;
        let known = self.kind_named(api_version, kind)?;
        let is_given = self.kinds.of_object(api_version, kind).is_some();
        if !is_given && built_in_kinds::of_kind(known.gvr.group.as_str(), kind).is_none() {
            self.unread.extend(self.doubt(&known, ends));
        }
        self.kinds.learn(known.clone());
        // Whoever has the object serves its version, too.
        let version = api_version.rsplit('/').next().and_then(|version| Version::parse(version).ok());
        let gvr = version.map(|version| GroupVersionResource { version, ..known.gvr.clone() });
        gvr.into_iter().for_each(|gvr| self.kinds.learn(KindInfo { gvr, ..known.clone() }));
        Some(self.place_of(known, object_type))
    }
}

impl Manifests {
    /// Returns the doubt about a kind whose resource is a guess: a rule names another resource, which may be the kind's.
    /// Then the rule may be about its objects.
    fn doubt(&self, guessed: &KindInfo, ends: &BTreeSet<GroupResource>) -> Option<ReadFailure> {
        let KindInfo { gvr, kind, .. } = guessed;
        if ends.contains(&gvr.group_resource()) {
            return None;
        }
        let mut others = ends.iter().filter(|end| end.group == gvr.group && self.kinds.of(end).is_none());
        let other = others.find(|end| may_be_plural(end.resource.as_str(), kind))?;
        Some(ReadFailure::new(
            format!("the objects of kind {kind} of {}", gvr.group),
            format!(
                "they may be {other}, which a rule names without the kind: add the CustomResourceDefinition to the \
                 files, or `kind: {kind}` to the rule"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::documents::Origin;

    fn manifests(objects: &[Value]) -> Manifests {
        let document =
            |value: &Value| Document { value: Arc::new(value.clone()), origin: Origin { file: "f".into(), line: 1 } };
        Manifests::new(&objects.iter().map(document).collect::<Vec<_>>(), &Namespace::parse("ns").unwrap()).unwrap()
    }

    #[test]
    fn a_namespace_is_filled_in_where_the_kind_has_one() {
        let manifests = manifests(&[
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": "other"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "other"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "d"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {}}),
        ]);
        let found: Vec<_> = (manifests.objects().iter())
            .map(|object| (object.gvr.group_resource().to_string(), object.namespace()))
            .collect();
        assert_eq!(
            found,
            [
                ("secrets".to_owned(), Some("ns")),
                ("secrets".to_owned(), Some("other")),
                ("clusterroles.rbac.authorization.k8s.io".to_owned(), None),
                ("nodes".to_owned(), None),
                ("vpcs.network.example.com".to_owned(), None),
            ]
        );
        let node = manifests.objects()[3].to_value().unwrap();
        assert_eq!(node["metadata"], json!({"name": "n"}));
    }

    #[test]
    fn an_object_in_two_files_is_one_and_the_last_counts() {
        let vpc = |metadata: Value, size: u8| {
            let value = json!({"apiVersion": "n.example.com/v1", "kind": "VPC", "metadata": metadata, "s": size});
            Document { value: Arc::new(value), origin: Origin { file: "f".into(), line: size.into() } }
        };
        let (here, own, other) = (json!({"name": "a", "namespace": "ns"}), json!({"name": "a"}), json!({"name": "b"}));
        let read = |documents: Vec<Document>| {
            let mut names = SharedNames::default();
            let records = documents.iter().map(|document| ObjectRecord::new(document, &mut names)).collect();
            Manifests::from_files(
                Files { records, ..Files::default() },
                &Namespace::parse("ns").unwrap(),
                Surroundings::default(),
            )
            .unwrap()
        };
        let same = read(vec![vpc(own.clone(), 1), vpc(own.clone(), 1), vpc(other, 1)]);
        assert_eq!((same.objects().len(), same.remarks().len()), (2, 0));
        let different = read(vec![vpc(own, 1), vpc(here, 2)]);
        assert_eq!((different.objects().len(), &different.objects()[0].to_value().unwrap()["s"]), (1, &json!(2)));
        assert_eq!(different.remarks(), ["VPC/a differs in f:1 and f:2; the last one counts"]);
    }

    #[test]
    fn where_one_object_of_a_kind_has_a_namespace_all_have() {
        let vpc =
            |metadata: Value| json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": metadata});
        let manifests = manifests(&[vpc(json!({"name": "a"})), vpc(json!({"name": "b", "namespace": "other"}))]);
        let values = manifests.objects().iter().map(|object| object.to_value().unwrap());
        let namespaces: Vec<_> = values.map(|value| value["metadata"]["namespace"].clone()).collect();
        assert_eq!(namespaces, ["ns", "other"]);
    }

    #[test]
    fn objects_of_one_generated_name_are_several() {
        let job = |metadata: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata});
        let here = || job(json!({"generateName": "migrate-"}));
        let elsewhere = job(json!({"generateName": "migrate-", "namespace": "other"}));
        let manifests = manifests(&[here(), elsewhere, here(), job(json!({"name": "migrate-1"})), here()]);
        let found: Vec<_> =
            manifests.objects().iter().map(|object| (object.namespace().unwrap(), object.name())).collect();
        let expected = [
            ("ns", "migrate-*"),
            ("other", "migrate-*"),
            ("ns", "migrate-*2"),
            ("ns", "migrate-1"),
            ("ns", "migrate-*3"),
        ];
        assert_eq!(found, expected);
        assert_eq!(manifests.objects()[2].to_value().unwrap()["metadata"]["name"], "migrate-*2");
    }

    #[test]
    fn a_rule_for_kcp_is_read_as_if_its_exports_were_bound() {
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "r"},
            "spec": {
                "dependent": {"apiExportName": "e", "group": "a.example.com", "version": "v1", "kind": "A", "resource": "as"},
                "dependencies": [{
                    "apiExportRef": {"path": "root:b", "name": "b"}, "group": "b.example.com", "version": "v1",
                    "resource": "bs", "fieldRef": {"path": ".spec.b"},
                }],
            },
        });
        let manifests = manifests(&[rule]);
        assert!(manifests.rules().parsed().all(|rule| rule.is_ok()));
        assert_eq!(manifests.kinds().find("as").unwrap().kind, "A");
    }
}
