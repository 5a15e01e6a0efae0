//! Members of an object: what an API server deletes with it, without regard to who refers to that. A definition has the
//! objects of its kind, a namespace the objects in it. What a workspace of kcp has is beyond the workspace that is read.

use std::collections::BTreeSet;

use depguard_core::Group;
use depguard_core::model::{GroupResource, Namespace, Resource};
use serde_json::Value;

use crate::cluster::kinds::KindInfo;
use crate::cluster::resource_path::text;
use crate::cluster::rules::{ReadFailure, Rules};
use crate::cluster::source::Source;
use crate::engine::reference_scan::AppliedEdge;
use crate::io::exit::Failure;
use crate::io::output::some_of;
use crate::io::terminal::Terminal;

/// Members of one object, as far as rules say that something refers to their kinds.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) objects: Vec<(KindInfo, Value)>,
    pub(crate) unread: Vec<ReadFailure>,
}

impl Members {
    /// Reads the members of an object. Objects of other kinds than definitions and namespaces have none.
    pub(crate) async fn read(
        source: &Source,
        rules: &Rules,
        (kind, object): (&KindInfo, &Value),
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let (edges, unread) = AppliedEdge::from_rules(rules);
        let targets: BTreeSet<_> = edges.iter().map(AppliedEdge::target).collect();
        let mut members = Self::default();
        let (kinds, namespace): (Vec<_>, _) = match (kind.gvr.group.as_str(), kind.gvr.resource.as_str()) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                let Some(defined) = defined_by(object) else { return Ok(members) };
                members.unread.extend(unread.into_iter().filter(|unread| unread.may_refer_to(&defined)));
                (targets.into_iter().filter(|kind| *kind == defined).collect(), None)
            }
            ("", "namespaces") => {
                members.unread.extend(unread);
                let namespace = Namespace::parse(text(object, "/metadata/name")).map_err(Failure::new)?;
                (targets.into_iter().collect(), Some(namespace))
            }
            ("tenancy.kcp.io", "workspaces") | ("core.kcp.io", "logicalclusters") => {
                let what = format!("who refers to what is in {} {}", kind.kind, text(object, "/metadata/name"));
                let bound = rules.bound.iter().flat_map(|bound| &bound.kinds);
                let bound = bound.filter(|kind| kind.provider.as_str() == text(object, "/spec/cluster"));
                let bound: BTreeSet<_> = bound.map(|kind| kind.kind.to_string()).collect();
                let here = match bound.is_empty() {
                    true => String::new(),
                    false => format!(", and so do the APIExports of {} of this workspace", some_of(bound, ", ")),
                };
                let why = format!("all of it goes with it{here}; ask inside it, and those that bind its APIExports");
                members.unread.push(ReadFailure::new(what, why));
                return Ok(members);
            }
            _ => return Ok(members),
        };
        for kind in kinds {
            let Some(kind) = source.kind_of(&kind).await? else { continue };
            let within = namespace.as_ref().map(Namespace::as_str);
            let mut objects = Vec::new();
            let each = |object: Value| {
                if within.is_none_or(|within| text(&object, "/metadata/namespace") == within) {
                    objects.push((kind.clone(), object));
                }
            };
            members.unread.extend(source.objects(&kind, namespace.as_ref(), terminal, each).await?);
            members.objects.append(&mut objects);
        }
        Ok(members)
    }

    /// Returns the objects, each with its kind.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&KindInfo, &Value)> {
        self.objects.iter().map(|(kind, object)| (kind, object))
    }
}

/// Returns the kind that a definition defines.
fn defined_by(definition: &Value) -> Option<GroupResource> {
    let group = Group::parse(text(definition, "/spec/group")).ok()?;
    Some(GroupResource { group, resource: Resource::parse(text(definition, "/spec/names/plural")).ok()? })
}
