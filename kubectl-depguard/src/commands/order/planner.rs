//! Plans a deletion: reads the rules, the locks and the objects, once at first and once more between waves.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::api::OnDelete;
use depguard_core::model::Namespace;
use serde_json::Value;

use super::plan::Plan;
use super::subject::Subject;
use crate::cluster::api_server::Lookup;
use crate::cluster::kinds::KindInfo;
use crate::cluster::named_objects::NamedObject;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::locks::Locks;
use crate::engine::reference_scan::{Follow, Object, READ_ONE_NAMESPACE, Scan, Scope};
use crate::io::exit::Failure;
use crate::io::output::some_of;
use crate::io::terminal::Terminal;

/// Source of the plans of one command.
pub(super) struct Planner {
    pub(super) source: Source,
    pub(super) subject: Subject,
    pub(super) selection: Selection,
}

/// Advice where the dependents' kinds have too many objects.
const READ_LESS: &str = "order a namespace instead: `kubectl depguard order NAMESPACE`";

impl Planner {
    /// Reads everything, and makes a plan for the objects that `permits` permits. `None` if the user named objects, and
    /// all of them are gone.
    pub(super) async fn plan(
        &self,
        permits: impl Fn(&Object) -> bool,
        terminal: &Terminal,
    ) -> Result<Option<Plan>, Failure> {
        match &self.subject {
            Subject::Place(namespace) => self.plan_place(namespace.as_ref(), permits, terminal).await.map(Some),
            Subject::Objects { named, with_dependents, unread } => {
                let mut plan = self.plan_objects(named, *with_dependents, permits, terminal).await?;
                plan.iter_mut().for_each(|plan| plan.miss(unread));
                Ok(plan)
            }
        }
    }

    /// Returns true if the user named objects: dependents then go only if these can go, too.
    pub(super) fn has_named_objects(&self) -> bool {
        matches!(self.subject, Subject::Objects { .. })
    }

    /// Forgets the kinds and bindings that an API server has told, so that the next plan reads them again.
    pub(super) fn forget(&mut self) {
        if let Source::ApiServer(live) = &mut self.source {
            live.forget();
        }
    }

    async fn plan_place(
        &self,
        namespace: Option<&Namespace>,
        permits: impl Fn(&Object) -> bool,
        terminal: &Terminal,
    ) -> Result<Plan, Failure> {
        let rules = self.source.rules().await?;
        let locks = Locks::read(&self.source, namespace, terminal).await?;
        let scope = Scope {
            namespace,
            fallback: namespace,
            labels: !locks.is_empty(),
            makers: true,
            selection: Some(&self.selection),
            ..Scope::all(Follow::Dependents, READ_ONE_NAMESPACE)
        };
        let scan = Scan::read(&self.source, &rules, scope, &[], terminal).await?;
        let meant = scan.objects.iter().map(Object::is_asked_for).collect();
        Ok(Plan::new(rules.control_plane, scan, &locks, meant, permits))
    }

    async fn plan_objects(
        &self,
        named: &[NamedObject],
        with_dependents: bool,
        permits: impl Fn(&Object) -> bool,
        terminal: &Terminal,
    ) -> Result<Option<Plan>, Failure> {
        let existing = self.existing(named).await?;
        if existing.is_empty() {
            return Ok(None);
        }
        let rules = self.source.rules().await?;
        let fallback = named.iter().find_map(|named| named.namespace.as_ref());
        // The namespaces of the dependents, and so their locks, are known only after the scan.
        let scope = Scope { labels: true, fallback, makers: true, ..Scope::all(Follow::Dependents, READ_LESS) };
        let known: Vec<_> = existing.iter().map(|(kind, object)| (*kind, &**object)).collect();
        let mut scan = Scan::read(&self.source, &rules, scope, &known, terminal).await?;
        let found = existing.iter().map(|(kind, object)| {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name").unwrap_or_default());
            scan.find(&kind.gvr.group_resource(), namespace, name)
                .ok_or_else(|| Failure::new(format!("{} {name} could not be read", kind.kind)).hint("run it again"))
        });
        let found = found.collect::<Result<BTreeSet<_>, _>>()?;
        let mut meant = scan.with_dependents(&found);
        if !with_dependents {
            meant.iter_mut().enumerate().for_each(|(index, is_meant)| *is_meant &= found.contains(&index));
        }
        scan.forget_unread_beside(&meant, |on_delete| on_delete == OnDelete::Deny);
        let without_refusal = scan.referring_without_refusal(&meant);
        let stay = without_refusal.iter().filter_map(|index| scan.objects.get(*index)).map(ToString::to_string);
        let stay = some_of(stay, ", ");
        let namespaces = scan.objects.iter().zip(&meant).filter(|(_, is_meant)| **is_meant);
        let namespaces: BTreeSet<_> = namespaces.map(|(object, _)| object.namespace().map(str::to_owned)).collect();
        let only = namespaces.first().and_then(|first| first.as_deref()).filter(|_| namespaces.len() == 1);
        let only = only.and_then(|namespace| Namespace::parse(namespace).ok());
        let locks = Locks::read(&self.source, only.as_ref(), terminal).await?;
        let mut plan = Plan::new(rules.control_plane, scan, &locks, meant, permits);
        if !stay.is_empty() {
            plan.note(format!("objects that refer by rules that only warn or audit stay: {stay}"));
        }
        Ok(Some(plan))
    }

    /// Reads the named objects again, and returns those that exist. An object of another UID is another object.
    async fn existing<'n>(&self, named: &'n [NamedObject]) -> Result<Vec<(&'n KindInfo, Arc<Value>)>, Failure> {
        let mut existing = Vec::new();
        for NamedObject { kind, name, object, .. } in named {
            let text = |object: &Value, pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let namespace = text(object, "/metadata/namespace");
            match self.source.look_up(kind, namespace.as_deref(), name).await? {
                Lookup::Found(found) if text(&found, "/metadata/uid") == text(object, "/metadata/uid") => {
                    existing.push((kind, found));
                }
                Lookup::Found(_) | Lookup::Missing => {}
                Lookup::Unread(unread) => {
                    return Err(Failure::new(format!("could not read {unread}")).hint("ask for the right to read it"));
                }
            }
        }
        Ok(existing)
    }
}
