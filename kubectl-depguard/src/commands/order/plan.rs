//! Deletion plan: waves, cycles, and the objects that can't go.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::ControlPlane;
use depguard_core::graph::{DeletionOrder, feedback_edges, strongly_connected_components};
use depguard_core::model::GroupResource;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::rules::ReadFailure;
use crate::engine::locks::{LockSummary, Locks};
use crate::engine::reference_scan::{Object, ObjectIdentity, Scan};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::first_of;
use crate::io::report::CommandReport;
use crate::io::terminal::Terminal;

/// Identity of an object. A later object of the same name has another UID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectKey {
    pub(super) name: ObjectName,
    uid: Option<String>,
}

/// Kind, namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectName {
    kind: GroupResource,
    namespace: Option<String>,
    name: String,
}

/// Plan of a deletion. Its numbers are indexes in the scan's objects.
#[derive(Debug)]
pub(super) struct Plan {
    scan: Scan,
    control_plane: ControlPlane,
    /// Remarks of the planner.
    notes: Vec<String>,
    /// For each object, true if the user meant it.
    meant: Vec<bool>,
    pub(super) waves: Vec<Vec<usize>>,
    pub(super) cycles: Vec<Vec<usize>>,
    /// Objects that should go, but are held by a cycle or by an object that stays.
    pub(super) held: Vec<usize>,
    /// Objects that should go, but are locked.
    pub(super) locked: BTreeMap<usize, Vec<LockSummary>>,
    holds: Vec<BlockingReference>,
    /// References that hold each object: indexes in `holds`.
    by_target: BTreeMap<usize, Vec<usize>>,
    /// References to clear for each cycle: indexes in `holds`.
    clear: Vec<Vec<usize>>,
}

/// Reference that keeps its target from being deleted.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockingReference {
    pub(super) from: usize,
    pub(super) to: usize,
    edge: usize,
}

impl ObjectKey {
    pub(super) fn new(object: &Object) -> Self {
        Self {
            name: ObjectName {
                kind: object.kind.gvr.group_resource(),
                namespace: object.referent.namespace.clone(),
                name: object.referent.name.clone(),
            },
            uid: object.referent.uid.clone(),
        }
    }
}

impl Plan {
    /// Orders the objects that the user meant, as far as `permits` permits; the others in the scan stay. Only references
    /// with `Deny` hold an object. Nothing holds an object that is being deleted already, as its deletion was granted. A
    /// locked object stays, whoever holds the lock.
    pub(super) fn new(
        control_plane: ControlPlane,
        mut scan: Scan,
        locks: &Locks,
        meant: Vec<bool>,
        permits: impl Fn(&Object) -> bool,
    ) -> Self {
        scan.coverage.miss(&locks.unread);
        let to_go = scan.objects.iter().zip(&meant).map(|(object, is_meant)| *is_meant && permits(object));
        let to_go: Vec<_> = to_go.collect();
        let goes = |index: usize| to_go.get(index) == Some(&true);
        let going = scan.objects.iter().enumerate().filter(|(index, object)| goes(*index) && !object.terminating);
        let locked = going.filter_map(|(index, object)| {
            let kind = object.kind.gvr.group_resource();
            let by = locks.of(&kind, object.namespace(), object.name(), &object.referent.labels);
            (!by.is_empty()).then_some((index, by))
        });
        let locked: BTreeMap<_, _> = locked.collect();
        let mut refers: Vec<Vec<usize>> = scan.objects.iter().map(|_| Vec::new()).collect();
        let (mut holds, mut by_target) = (Vec::new(), BTreeMap::<usize, Vec<usize>>::new());
        for (from, to, edge) in scan.blocking() {
            if let Some(refers) = refers.get_mut(from) {
                refers.push(to);
            }
            by_target.entry(to).or_default().push(holds.len());
            holds.push(BlockingReference { from, to, edge });
        }
        let stays = |index| locked.contains_key(&index) || !goes(index);
        let mut turns = DeletionOrder::new(&refers, stays);
        // A cycle of objects that stay anyway blocks nothing that is to go.
        turns.cycles.retain(|cycle| cycle.iter().any(|index| goes(*index)));
        let clear = turns.cycles.iter().map(|cycle| {
            let pairs: BTreeSet<_> = feedback_edges(cycle, &refers).into_iter().collect();
            let closing = holds.iter().enumerate().filter(|(_, hold)| pairs.contains(&(hold.from, hold.to)));
            closing.map(|(index, _)| index).collect()
        });
        let clear = clear.collect();
        let going: BTreeSet<_> = turns.waves.iter().flatten().copied().collect();
        let both_go = |(user, maker): &(usize, usize)| going.contains(user) && going.contains(maker);
        add_makers(&mut refers, scan.users_of_makers().filter(both_go).collect());
        turns.waves = DeletionOrder::new(&refers, stays).waves;
        Self {
            scan,
            control_plane,
            notes: Vec::new(),
            meant,
            waves: turns.waves,
            cycles: turns.cycles,
            held: turns.held,
            locked,
            holds,
            by_target,
            clear,
        }
    }

    pub(super) fn control_plane(&self) -> ControlPlane {
        self.control_plane
    }

    pub(super) fn object(&self, index: usize) -> Option<&Object> {
        self.scan.objects.get(index)
    }

    /// Returns all objects that were read, with their indexes.
    pub(super) fn objects(&self) -> impl Iterator<Item = (usize, &Object)> {
        self.scan.objects.iter().enumerate()
    }

    /// Adds a remark for people.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Returns the remarks that were added.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns true if the user meant the object, whether it can go or not.
    pub(super) fn is_meant(&self, index: usize) -> bool {
        self.meant.get(index) == Some(&true)
    }

    /// Returns all references that keep an object from being deleted.
    pub(super) fn holds(&self) -> &[BlockingReference] {
        &self.holds
    }

    /// Records further parts that could not be read.
    pub(super) fn miss(&mut self, unread: &[ReadFailure]) {
        self.scan.miss(unread.iter().cloned());
    }

    /// Prints on standard error the parts that could not be read.
    pub(super) fn print_unread(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.scan.print_unread(terminal)
    }

    /// Returns the parts that could not be read, each as the end of "could not read …".
    pub(super) fn unread(&self) -> &[String] {
        self.scan.coverage.missing()
    }

    /// Returns the number of objects in all waves.
    pub(super) fn count(&self) -> usize {
        self.waves.iter().map(Vec::len).sum()
    }

    /// Ends a command that followed the plan; `is_done`: nothing was refused or is left.
    pub(super) fn outcome(&self, is_done: bool) -> Result<Outcome, Failure> {
        let can_all_go = self.cycles.is_empty() && self.held.is_empty() && self.locked.is_empty();
        match is_done && can_all_go {
            true => self.scan.coverage.all_is_well("the plan is incomplete"),
            false => Ok(Outcome::Finding),
        }
    }

    /// Returns the kinds that the plan covers.
    pub(super) fn kinds(&self) -> BTreeSet<String> {
        let ends = self.scan.edges.iter().flat_map(|edge| [edge.dependent(), edge.target()]);
        ends.map(|kind| kind.to_string()).collect()
    }

    /// Returns the references that hold an object.
    pub(super) fn held_by(&self, index: usize) -> impl Iterator<Item = &BlockingReference> {
        self.by_target.get(&index).into_iter().flatten().filter_map(|hold| self.holds.get(*hold))
    }

    /// Names a reference: `VirtualMachine/ns/m1 (rule vms, spec.vpcRef.name)`.
    pub(super) fn describe(&self, hold: &BlockingReference) -> String {
        let (rule, field) = self.through(hold);
        format!("{} (rule {rule}, {field})", self.named(hold.from))
    }

    /// Says which object refers to which: `VirtualMachine/ns/m1 (rule vms, spec.vpcRef.name) refers to VPC/ns/a`.
    pub(super) fn sentence(&self, hold: &BlockingReference) -> String {
        format!("{} refers to {}", self.describe(hold), self.named(hold.to))
    }

    /// Explains a cycle in sentences: its meaning, and how to end it. Names at most `max` of many objects.
    pub(super) fn explain(&self, cycle: usize, max: usize) -> String {
        let members = self.cycles.get(cycle).map_or(&[][..], Vec::as_slice);
        let clear =
            (self.clear.get(cycle).into_iter().flatten()).filter_map(|hold| self.holds.get(*hold)).map(|hold| {
                let (rule, field) = self.through(hold);
                format!("{field} of {} (rule {rule}), which refers to {}", self.named(hold.from), self.named(hold.to))
            });
        format!(
            "{} protect each other, so none of them can be deleted alone. {} Or clear first: {}.",
            joined(members.iter().map(|member| self.named(*member)), max),
            self.what_ends(members, max),
            first_of(clear, max, "; "),
        )
    }

    fn what_ends(&self, members: &[usize], max: usize) -> String {
        let members = members.iter().filter_map(|member| self.object(*member));
        let places: BTreeSet<_> = members.map(Object::namespace).collect();
        let namespaces = joined(places.iter().flatten().map(|name| (*name).to_owned()), max);
        match (places.contains(&None), self.control_plane) {
            (false, _) if places.len() == 1 => format!("They end when namespace {namespaces} is deleted."),
            (false, _) => format!("They end when the namespaces {namespaces} are all being deleted."),
            (true, ControlPlane::Kcp) => "They end when their workspace is deleted.".to_owned(),
            (true, ControlPlane::Kubernetes) => {
                "No teardown ends them, because some of them have no namespace.".to_owned()
            }
        }
    }

    /// Returns the plan for JSON and YAML output.
    pub(super) fn report(&self) -> PlanReport<'_> {
        let item = |index: &usize| {
            let object = self.object(*index)?;
            let blockers = self.held_by(*index).filter_map(|hold| {
                let (rule, field) = self.through(hold);
                Some(Blocker { object: self.object(hold.from)?.identity(), rule, field })
            });
            Some(Item {
                locked_by: self.locked.get(index).map_or(&[], Vec::as_slice),
                object: object.identity(),
                uid: object.referent.uid.as_deref(),
                being_deleted: object.terminating,
                blocked_by: blockers.collect(),
            })
        };
        let items = |objects: &Vec<usize>| objects.iter().filter_map(item).collect();
        PlanReport {
            kinds: self.kinds(),
            waves: self.waves.iter().map(items).collect(),
            cycles: (self.cycles.iter().enumerate())
                .map(|(number, members)| Cycle { objects: items(members), meaning: self.explain(number, usize::MAX) })
                .collect(),
            held: items(&self.held),
            locked: items(&self.locked.keys().copied().collect()),
            could_not_be_looked_at: self.scan.coverage.missing(),
        }
    }

    fn named(&self, index: usize) -> String {
        self.object(index).map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the rule and the field of a reference.
    fn through(&self, hold: &BlockingReference) -> (&str, String) {
        let edge = self.scan.edges.get(hold.edge);
        edge.map(|edge| (edge.rule().name.as_str(), edge.edge.field())).unwrap_or_default()
    }
}

/// Lets users of what another object makes go before the maker, with which it may go. A maker that would have to go before
/// the user in turn does not wait.
fn add_makers(refers: &mut [Vec<usize>], users_of_makers: Vec<(usize, usize)>) {
    let mut all = refers.to_vec();
    for (user, maker) in &users_of_makers {
        all.get_mut(*user).into_iter().for_each(|refers| refers.push(*maker));
    }
    let component = strongly_connected_components(&all);
    for (user, maker) in users_of_makers {
        let in_circle = component.get(user) == component.get(maker);
        refers.get_mut(user).filter(|_| !in_circle).into_iter().for_each(|refers| refers.push(maker));
    }
}

/// Joins names as a sentence does, or the first `max` of more: `a, b and c`.
fn joined(names: impl Iterator<Item = String>, max: usize) -> String {
    let names: Vec<_> = names.collect();
    match names.as_slice() {
        [rest @ .., last] if !rest.is_empty() && rest.len() < max => format!("{} and {last}", rest.join(", ")),
        _ => first_of(names, max, ", "),
    }
}

/// Plan for JSON and YAML output, see [`Plan::report`].
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport<'a> {
    kinds: BTreeSet<String>,
    waves: Vec<Vec<Item<'a>>>,
    cycles: Vec<Cycle<'a>>,
    held: Vec<Item<'a>>,
    locked: Vec<Item<'a>>,
    could_not_be_looked_at: &'a [String],
}

impl CommandReport for PlanReport<'_> {
    const KIND: &'static str = "OrderReport";
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cycle<'a> {
    objects: Vec<Item<'a>>,
    meaning: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(flatten)]
    object: ObjectIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    being_deleted: bool,
    blocked_by: Vec<Blocker<'a>>,
    #[serde(skip_serializing_if = "<[LockSummary]>::is_empty")]
    locked_by: &'a [LockSummary],
}

#[derive(Debug, Serialize, JsonSchema)]
struct Blocker<'a> {
    #[serde(flatten)]
    object: ObjectIdentity,
    rule: &'a str,
    field: String,
}
