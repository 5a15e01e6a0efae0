//! Reads the objects of a scan and their references.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use depguard_core::lookup::{ObjectReference, ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_core::model::Namespace;
use depguard_core::rule::Edge;
use serde_json::Value;

use super::plan::{Plan, plans};
use super::resolve::PendingReference;
use super::{AppliedEdge, Follow, MAX_OBJECTS, MAX_REFERENCES, Object, Scan, Scope};
use crate::cluster::kinds::KindInfo;
use crate::cluster::rule_flaws::may_be_installed;
use crate::cluster::rules::ReadFailure;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Limit on the namespaces with a list each; targets in more namespaces are read by one list of all.
const MAX_NAMESPACES: usize = 8;

pub(super) async fn all(
    scan: &mut Scan,
    source: &Source,
    scope: Scope<'_>,
    known: &[(&KindInfo, &Value)],
    terminal: &Terminal,
) -> Result<(), Failure> {
    let plans = plans(&scan.edges, source.kinds().await?);
    for plan in &plans {
        scan.kinds.insert(plan.kind.gvr.group_resource(), Arc::clone(&plan.kind));
    }
    for (kind, object) in known {
        keep(scan, &Plan::known(kind), scope, None, object)?;
    }
    let mut reading = ScanReader { scan, source, scope, terminal };
    for plan in &plans {
        match scope.follow {
            Follow::Dependents => reading.read_inwards(plan).await?,
            Follow::Targets => reading.read_outwards(plan).await?,
        }
    }
    // The places of the targets are known only now that the dependents are read.
    if scope.follow == Follow::Targets {
        for plan in plans.iter().filter(|plan| plan.is_target) {
            reading.read_meant(plan).await?;
        }
    }
    Ok(())
}

/// Scan in progress, with its source and its scope.
struct ScanReader<'a> {
    scan: &'a mut Scan,
    source: &'a Source,
    scope: Scope<'a>,
    terminal: &'a Terminal,
}

impl ScanReader<'_> {
    /// Reads the objects that may be referred to, and the objects that may refer to them.
    async fn read_inwards(&mut self, plan: &Plan) -> Result<(), Failure> {
        let namespace = self.scope.namespace;
        if namespace.is_some() && plan.edges.is_empty() && plan.kind.namespaced == Some(false) {
            return Ok(());
        }
        self.read_kind(plan, if plan.crosses { None } else { namespace }, true).await
    }

    /// Reads the objects that may refer to others.
    async fn read_outwards(&mut self, plan: &Plan) -> Result<(), Failure> {
        if plan.edges.is_empty() {
            return Ok(());
        }
        self.read_kind(plan, self.scope.namespace, true).await
    }

    /// Reads the objects of a kind that pending references mean, in the namespaces where these would be.
    async fn read_meant(&mut self, plan: &Plan) -> Result<(), Failure> {
        let kind = plan.kind.gvr.group_resource();
        let (mut anywhere, mut namespaces) = (false, BTreeSet::new());
        let means_it: Vec<_> = self.scan.edges.iter().map(|applied| applied.target() == kind).collect();
        for PendingReference { edge, reference, .. } in &self.scan.pending {
            if means_it.get(*edge) == Some(&true) {
                let (ReferenceTarget::Named { namespace, .. }
                | ReferenceTarget::Selected { namespace, .. }
                | ReferenceTarget::Unclear { namespace, .. }) = &reference.means;
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
        if anywhere || namespaces.len() > MAX_NAMESPACES {
            return self.read_kind(plan, None, false).await;
        }
        for namespace in namespaces {
            // A name that no namespace can have holds nothing.
            match Namespace::parse(&namespace) {
                Ok(namespace) => self.read_kind(plan, Some(&namespace), false).await?,
                Err(_) => drop(self.scan.seen.entry(kind.clone()).or_default().namespaces.insert(namespace)),
            }
        }
        Ok(())
    }

    /// Lists a kind in one namespace or in all. If the list of all fails, the fallback namespace is listed instead.
    async fn read_kind(&mut self, plan: &Plan, namespace: Option<&Namespace>, refers: bool) -> Result<(), Failure> {
        // What is not installed has no objects, and not everybody may ask for them. If a reference means a target of this
        // kind, nobody knows what it means.
        if refers && !plan.is_known && !may_be_installed(&plan.kind.gvr.group, self.source.kinds().await?) {
            self.see_dependents(plan, None);
            return Ok(());
        }
        let Some(unread) = self.list(plan, namespace, refers).await? else { return Ok(()) };
        // Nor has a kind that is not served. A target may be misspelt.
        if !plan.is_known && !plan.is_target && unread.is_not_served() {
            self.see_dependents(plan, None);
            return Ok(());
        }
        let fallback = self.scope.namespace.or(self.scope.fallback);
        let fallback = fallback.filter(|_| namespace.is_none() && plan.kind.namespaced != Some(false));
        let ReadFailure { mut what, why, .. } = unread;
        match namespace.filter(|_| plan.kind.namespaced != Some(false)) {
            Some(namespace) => what.push_str(&format!(" in namespace {namespace}")),
            None if fallback.is_some() && self.list(plan, fallback, refers).await?.is_none() => {
                what.push_str(" in other namespaces");
            }
            None => {}
        }
        let unread = ReadFailure::new(what, why);
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
    ) -> Result<Option<ReadFailure>, Failure> {
        let Self { scan, source, scope, terminal } = self;
        let edges = || plan.edges.iter().filter_map(|index| scan.edges.get(*index));
        let reader = refers.then(|| EdgeReader::new(edges()));
        let mut kept = Ok(());
        let each = |object: Value| {
            if kept.is_ok() {
                kept = keep(scan, plan, *scope, reader.as_ref(), &object);
            }
        };
        let unread = source.objects(&plan.kind, namespace, terminal, each).await?;
        kept?;
        if unread.is_none() {
            let namespace = namespace.filter(|_| plan.kind.namespaced != Some(false)).map(Namespace::as_str);
            self.scan.seen.entry(plan.kind.gvr.group_resource()).or_default().add(namespace);
            if refers {
                self.see_dependents(plan, namespace);
            }
        }
        Ok(unread)
    }

    /// Records that the dependents of the plan's edges were read in a namespace; `None`: in all.
    fn see_dependents(&mut self, plan: &Plan, namespace: Option<&str>) {
        for edge in &plan.edges {
            if let Some(seen) = self.scan.dependents_seen.get_mut(*edge) {
                seen.add(namespace);
            }
        }
    }
}

/// Reader of the references that count, and of those for which a `when` decides.
struct EdgeReader {
    all: ReferenceReader,
    /// Reader of the edges with a `when`, as if they had none; `None` if no edge has one.
    unconditional: Option<ReferenceReader>,
}

/// Name, namespace and UID of an object.
type Name = (String, Option<String>, Option<String>);

impl EdgeReader {
    fn new<'e>(edges: impl Iterator<Item = &'e AppliedEdge> + Clone) -> Self {
        let bare = |applied: &'e AppliedEdge| {
            let mut edge: Edge = applied.edge.clone();
            edge.when.clear();
            (&*applied.rule, edge)
        };
        let bare: Vec<_> = edges.clone().filter(|applied| !applied.edge.when.is_empty()).map(bare).collect();
        let unconditional = ReferenceReader::new(bare.iter().map(|(rule, edge)| (*rule, edge)));
        Self {
            all: ReferenceReader::new(edges.map(|applied| (&*applied.rule, &applied.edge))),
            unconditional: (!bare.is_empty()).then_some(unconditional),
        }
    }

    /// Returns true if some reference of an object counts by no edge, since no `when` holds. `held` are those that count.
    fn leaves_out(&self, object: &Value, held: &HashSet<Option<Name>>) -> bool {
        let mut leaves_out = false;
        if let Some(unconditional) = &self.unconditional {
            // An object whose references can't be read is reported by then.
            _ = unconditional.read(object, |reference| leaves_out |= !held.contains(&name(&reference)));
        }
        leaves_out
    }
}

/// Keeps the parts of an object that the scan needs, and the object's references.
fn keep(
    scan: &mut Scan,
    plan: &Plan,
    scope: Scope<'_>,
    reader: Option<&EdgeReader>,
    object: &Value,
) -> Result<(), Failure> {
    let mut referent = ReferencedObject::read(object);
    let kind = plan.kind.gvr.group_resource();
    if !plan.is_selected && !scope.labels {
        referent.labels = BTreeMap::new();
    }
    let from = match scan.find(&kind, referent.namespace.as_deref(), &referent.name) {
        Some(index) => index,
        None => {
            let inside = scope.namespace.is_none_or(|asked| referent.namespace.as_deref() == Some(asked.as_str()));
            let is_near = inside || referent.namespace.is_none();
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
                selected: scope.selection.is_none_or(|selection| is_near && selection.matches(object)),
            });
            scan.objects.len().saturating_sub(1)
        }
    };
    if scan.objects.len() > MAX_OBJECTS {
        return Err(Failure::new(format!("there are more than {MAX_OBJECTS} objects to read")).hint(scope.read_less));
    }
    let Some(reader) = reader else { return Ok(()) };
    let (mut known, pending, mut held) = (HashSet::new(), &mut scan.pending, HashSet::new());
    let read = reader.all.read(object, |reference| {
        let name = name(&reference);
        if reader.unconditional.is_some() {
            held.insert(name.clone());
        }
        let Some(edge) = plan.edges.get(reference.edge) else { return };
        // Of several references of an edge that mean the same object, one is enough.
        let is_new = pending.len() <= MAX_REFERENCES && name.is_none_or(|name| known.insert((reference.edge, name)));
        if is_new {
            pending.push(PendingReference { from, edge: *edge, reference: reference.into_owned() });
        }
    });
    if let (Err(why), Some(object)) = (read, scan.objects.get(from)) {
        return Err(Failure::new(format!("could not read the references of {object}: {why}")));
    }
    let is_asked_for = scan.objects.get(from).is_some_and(Object::is_asked_for);
    scan.left_out = scan.left_out.saturating_add(usize::from(is_asked_for && reader.leaves_out(object, &held)));
    if scan.pending.len() > MAX_REFERENCES { Err(scope.too_many_references()) } else { Ok(()) }
}

/// Returns what a reference says of the object that it names; `None` if it names none.
fn name(reference: &ObjectReference<'_>) -> Option<Name> {
    let ReferenceTarget::Named { name, namespace, uid } = &reference.means else { return None };
    let own = |text: &std::borrow::Cow<'_, str>| text.to_string();
    Some((own(name), namespace.as_ref().map(own), uid.as_ref().map(own)))
}
