//! Objects that other objects make, and targets that are in no file but will be there.

use std::collections::{BTreeSet, HashMap};

use depguard_controller::packs::RulePack;
use depguard_core::lookup::{ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_core::model::GroupResource;
use depguard_core::{ControlPlane, Rule};
use serde_json::Value;

use super::{AppliedEdge, MAX_OBJECTS, ObjectIdentity, Scan, Scope};
use crate::cluster::kinds::{KindInfo, resource_name};
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Objects that other objects make and keep, as the packs know, each with its maker.
#[derive(Debug, Default)]
pub(crate) struct MadeObjects {
    makers: HashMap<(GroupResource, Option<String>, String), ObjectIdentity>,
    /// Kinds of makers whose objects were not all read, by the kind of what they make.
    unread: HashMap<GroupResource, BTreeSet<String>>,
}

/// Target that the files lack, and that will be there.
#[derive(Debug)]
pub(crate) struct GivenTarget {
    /// Reference: an index in the scan's references.
    pub(crate) reference: usize,
    pub(crate) kind: GroupResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// Object of the files that makes it; `None`: every cluster has it.
    pub(crate) maker: Option<ObjectIdentity>,
}

impl MadeObjects {
    /// Returns the maker of an object, if the object is made by one.
    pub(crate) fn maker(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Option<&ObjectIdentity> {
        self.makers.get(&(kind.clone(), namespace.map(str::to_owned), name.to_owned()))
    }

    /// Returns the kinds that may make an object of that kind, and whose objects were not all read.
    pub(crate) fn unread(&self, kind: &GroupResource) -> impl Iterator<Item = &String> {
        self.unread.get(kind).into_iter().flatten()
    }

    /// Reads the makers, as far as they may make a target of the edges. On an API server, only those are read whose kind is
    /// the dependents' in a rule, since a scan could read them.
    pub(crate) async fn read(
        edges: &[AppliedEdge],
        control_plane: ControlPlane,
        source: &Source,
        scope: Scope<'_>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let mut made = Self::default();
        let packs = RulePack::all().iter().filter(|pack| pack.control_plane == control_plane);
        let rules = packs.flat_map(RulePack::makes).filter_map(|rule| Rule::parse(control_plane, &rule).ok());
        for rule in rules {
            let own = rule.dependent().gvr.group_resource();
            let is_target = |kind: &GroupResource| edges.iter().any(|applied| applied.target() == *kind);
            let can_be_read = !source.is_live() || edges.iter().map(AppliedEdge::dependent).any(|kind| kind == own);
            let is_meant = rule.edges().iter().any(|edge| is_target(&edge.target.gvr.group_resource()));
            if !is_meant {
                continue;
            }
            let kinds = source.kinds().await?;
            let is_read = match kinds.of(&own) {
                None => kinds.unread_of(&own.group).next().is_none(),
                Some(_) if !can_be_read => false,
                Some(known) => {
                    let kind = KindInfo { gvr: rule.dependent().gvr.clone(), ..known.clone() };
                    let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
                    let each = |object: Value| made.add(&rule, &kind, &reader, &object);
                    let namespace = scope.namespace.filter(|_| source.is_live());
                    source.objects(&kind, namespace, terminal, each).await?.is_none()
                }
            };
            for edge in rule.edges().iter().filter(|_| !is_read) {
                made.unread.entry(edge.target.gvr.group_resource()).or_default().insert(own.to_string());
            }
            if made.makers.len() > MAX_OBJECTS {
                let message = format!("there are more than {MAX_OBJECTS} objects to read");
                return Err(Failure::new(message).hint(scope.read_less));
            }
        }
        Ok(made)
    }

    /// Adds what an object makes: of several fields, the first counts that has a name. One that is being deleted makes
    /// nothing any more.
    fn add(&mut self, rule: &Rule, kind: &KindInfo, reader: &ReferenceReader, object: &Value) {
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
            return;
        }
        let mut named = Vec::new();
        // An object without a name makes nothing.
        _ = reader.read(object, |reference| {
            if let ReferenceTarget::Named { name, namespace, .. } = &reference.means {
                named.push((reference.edge, namespace.as_deref().map(str::to_owned), name.to_string()));
            }
        });
        let Some(first) = named.iter().map(|(edge, ..)| *edge).min() else { return };
        let maker = ReferencedObject::read(object);
        let maker = ObjectIdentity::new(kind, maker.namespace, &maker.name);
        for (_, namespace, name) in named.into_iter().filter(|(edge, ..)| *edge == first) {
            if let Some(edge) = rule.edges().get(first) {
                self.makers.insert((edge.target.gvr.group_resource(), namespace, name), maker.clone());
            }
        }
    }
}

impl Scan {
    /// Takes for existing what the files lack, and every cluster has, or an object of the files makes.
    pub(super) fn find_given(&mut self, source: &Source) {
        if source.is_live() {
            return;
        }
        let given = self.references.iter().enumerate().filter_map(|(index, reference)| {
            let (kind, namespace, name) = self.missing_target(reference)?;
            let maker = self.made.maker(&kind, namespace, name).cloned();
            let is_given = maker.is_some() || source.every_cluster_has(&kind, namespace, name);
            let has_uid = matches!(&*reference.means, ReferenceTarget::Named { uid: Some(_), .. });
            let (namespace, name) = (namespace.map(str::to_owned), name.to_owned());
            (is_given && !has_uid).then_some(GivenTarget { reference: index, kind, namespace, name, maker })
        });
        self.given = given.collect();
        for given in &self.given {
            if let Some(reference) = self.references.get_mut(given.reference) {
                reference.exists = true;
            }
        }
    }

    /// Returns each object that refuses the deletion of what another object makes, and that maker.
    pub(crate) fn users_of_makers(&self) -> impl Iterator<Item = (usize, usize)> {
        let denying = self.references.iter().filter(|reference| self.denies(reference));
        denying.filter_map(|reference| {
            let ReferenceTarget::Named { name, namespace, .. } = &*reference.means else { return None };
            let target = self.edges.get(reference.edge)?.target();
            let maker = self.made.maker(&target, namespace.as_deref(), name)?;
            let kind: GroupResource = resource_name(&maker.resource, &maker.group).parse().ok()?;
            let maker = self.find(&kind, maker.namespace.as_deref(), &maker.name)?;
            (maker != reference.from).then_some((reference.from, maker))
        })
    }
}
