//! Reads the objects, and what each of them refers to.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use depguard_core::{Held, Means, Namespace, ReferenceReader, Referent};
use serde_json::Value;

use super::plan::{Plan, plans};
use super::resolve::Pending;
use super::{Follow, MOST_OBJECTS, MOST_REFERENCES, Object, Scan, Scope};
use crate::kinds::KindInfo;
use crate::outcome::Failure;
use crate::rules::Unread;
use crate::source::Source;
use crate::terminal::Terminal;

/// Targets in more namespaces than these are read by one list of all.
const MOST_NAMESPACES: usize = 8;

pub(super) async fn all(
    scan: &mut Scan,
    source: &Source,
    scope: Scope<'_>,
    known: Option<(&KindInfo, &Value)>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let plans = plans(&scan.edges, source.kinds().await?);
    for plan in &plans {
        scan.kinds.insert(plan.kind.gvr.group_resource(), Arc::clone(&plan.kind));
    }
    if let Some((kind, object)) = known {
        keep(scan, &Plan::known(kind), scope, None, object)?;
    }
    let mut reading = Reading { scan, source, scope, terminal };
    for plan in &plans {
        match scope.follow {
            Follow::Dependents => reading.inwards(plan).await?,
            Follow::Targets => reading.outwards(plan).await?,
        }
    }
    // Only now is it known where what they refer to would be.
    if scope.follow == Follow::Targets {
        for plan in plans.iter().filter(|plan| plan.is_target) {
            reading.meant(plan).await?;
        }
    }
    Ok(())
}

/// What is read, from where.
struct Reading<'a> {
    scan: &'a mut Scan,
    source: &'a Source,
    scope: Scope<'a>,
    terminal: &'a Terminal,
}

impl Reading<'_> {
    /// The objects that may be referred to, and whoever may refer to them.
    async fn inwards(&mut self, plan: &Plan) -> Result<(), Failure> {
        let namespace = self.scope.namespace;
        if namespace.is_some() && plan.edges.is_empty() && plan.kind.namespaced == Some(false) {
            return Ok(());
        }
        self.look(plan, if plan.crosses { None } else { namespace }, true).await
    }

    /// The objects that may refer to others.
    async fn outwards(&mut self, plan: &Plan) -> Result<(), Failure> {
        if plan.edges.is_empty() {
            return Ok(());
        }
        self.look(plan, self.scope.namespace, true).await
    }

    /// Those of a kind that were found to be meant, where they would be.
    async fn meant(&mut self, plan: &Plan) -> Result<(), Failure> {
        let kind = plan.kind.gvr.group_resource();
        let (mut anywhere, mut namespaces) = (false, BTreeSet::new());
        let means_it: Vec<_> = self.scan.edges.iter().map(|bearing| bearing.target() == kind).collect();
        for Pending { edge, held, .. } in &self.scan.pending {
            if means_it.get(*edge) == Some(&true) {
                let (Means::Named { namespace, .. }
                | Means::Selected { namespace, .. }
                | Means::Unclear { namespace, .. }) = &held.means;
                match namespace {
                    None => anywhere = true,
                    Some(namespace) => drop(namespaces.insert(namespace.to_string())),
                }
            }
        }
        if let Some(seen) = self.scan.seen.get(&kind) {
            anywhere &= !seen.covers(None);
            namespaces.retain(|namespace| !seen.covers(Some(namespace)));
        }
        anywhere |= !namespaces.is_empty() && (self.scope.namespace.is_none() || plan.kind.namespaced == Some(false));
        if anywhere || namespaces.len() > MOST_NAMESPACES {
            return self.look(plan, None, false).await;
        }
        for namespace in namespaces {
            // What can be no namespace holds nothing.
            match Namespace::parse(&namespace) {
                Ok(namespace) => self.look(plan, Some(&namespace), false).await?,
                Err(_) => drop(self.scan.seen.entry(kind.clone()).or_default().namespaces.insert(namespace)),
            }
        }
        Ok(())
    }

    /// Lists a kind in a namespace, or in all; where that must not be, in the one to fall back to.
    async fn look(&mut self, plan: &Plan, namespace: Option<&Namespace>, refers: bool) -> Result<(), Failure> {
        let Some(unread) = self.list(plan, namespace, refers).await? else { return Ok(()) };
        // Nobody can have objects of a kind that nobody serves.
        if !plan.is_known && !plan.is_target && unread.is_not_served() {
            return Ok(());
        }
        let fallback = self.scope.namespace.or(self.scope.fallback);
        let fallback = fallback.filter(|_| namespace.is_none() && plan.kind.namespaced != Some(false));
        let Unread { mut what, why } = unread;
        match namespace.filter(|_| plan.kind.namespaced != Some(false)) {
            Some(namespace) => what.push_str(&format!(" in namespace {namespace}")),
            None if fallback.is_some() && self.list(plan, fallback, refers).await?.is_none() => {
                what.push_str(" in other namespaces");
            }
            None => {}
        }
        let unread = Unread { what, why };
        if !self.scan.unread.contains(&unread) {
            self.scan.unread.push(unread);
        }
        Ok(())
    }

    async fn list(
        &mut self,
        plan: &Plan,
        namespace: Option<&Namespace>,
        refers: bool,
    ) -> Result<Option<Unread>, Failure> {
        let Self { scan, source, scope, terminal } = self;
        let edges = plan.edges.iter().filter_map(|index| scan.edges.get(*index));
        let reader = ReferenceReader::new(edges.map(|bearing| (&*bearing.rule, &bearing.edge)));
        let reader = refers.then_some(&reader);
        let mut kept = Ok(());
        let each = |object: Value| {
            if kept.is_ok() {
                kept = keep(scan, plan, *scope, reader, &object);
            }
        };
        let unread = source.objects(&plan.kind, namespace, terminal, each).await?;
        kept?;
        if unread.is_none() {
            let seen = self.scan.seen.entry(plan.kind.gvr.group_resource()).or_default();
            match namespace.filter(|_| plan.kind.namespaced != Some(false)) {
                None => seen.everywhere = true,
                Some(namespace) => drop(seen.namespaces.insert(namespace.to_string())),
            }
        }
        Ok(unread)
    }
}

/// Keeps what is needed of an object, and what it refers to.
fn keep(
    scan: &mut Scan,
    plan: &Plan,
    scope: Scope<'_>,
    reader: Option<&ReferenceReader>,
    object: &Value,
) -> Result<(), Failure> {
    let mut referent = Referent::read(object);
    let kind = plan.kind.gvr.group_resource();
    if !plan.is_selected && !scope.labels {
        referent.labels = BTreeMap::new();
    }
    let from = match scan.find(&kind, referent.namespace.as_deref(), &referent.name) {
        Some(index) => index,
        None => {
            let inside = scope.namespace.is_none_or(|asked| referent.namespace.as_deref() == Some(asked.as_str()));
            let metadata = object.get("metadata");
            scan.names.insert(kind, &referent, scan.objects.len());
            scan.objects.push(Object {
                kind: plan.kind.clone(),
                referent,
                terminating: metadata
                    .and_then(|metadata| metadata.get("deletionTimestamp"))
                    .and_then(Value::as_str)
                    .is_some_and(|time| !time.is_empty()),
                inside,
            });
            scan.objects.len().saturating_sub(1)
        }
    };
    if scan.objects.len() > MOST_OBJECTS {
        return Err(Failure::new(format!("there are more than {MOST_OBJECTS} objects to look at"))
            .hint("look at one namespace at a time, with --namespace"));
    }
    let Some(reader) = reader else { return Ok(()) };
    let (mut told, pending) = (HashSet::new(), &mut scan.pending);
    let read = reader.read(object, |held| {
        let Some(edge) = plan.edges.get(held.edge) else { return };
        if pending.len() <= MOST_REFERENCES && is_new(&held, &mut told) {
            pending.push(Pending { from, edge: *edge, held: held.into_owned() });
        }
    });
    if let (Err(why), Some(object)) = (read, scan.objects.get(from)) {
        return Err(Failure::new(format!("could not read what {object} refers to: {why}")));
    }
    if scan.pending.len() > MOST_REFERENCES { Err(too_many()) } else { Ok(()) }
}

/// Of references that mean the same, one is enough.
fn is_new(held: &Held<'_>, told: &mut HashSet<(usize, String, Option<String>, Option<String>)>) -> bool {
    let Means::Named { name, namespace, uid } = &held.means else { return true };
    let own = |text: &std::borrow::Cow<'_, str>| text.to_string();
    told.insert((held.edge, own(name), namespace.as_ref().map(own), uid.as_ref().map(own)))
}

pub(super) fn too_many() -> Failure {
    Failure::new(format!("there are more than {MOST_REFERENCES} references to look at"))
        .hint("look at one namespace at a time, with --namespace")
}
