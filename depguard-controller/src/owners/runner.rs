//! Rounds about owners: each looks, decides, writes, and looks again until nothing is left to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::owners::{Entry, Order};
use depguard_core::{ControlPlane, GroupVersionResource};
use depguard_kcp::{ApiError, Endpoint, Reflector, ReflectorOptions, Snapshot, Watched, latest};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::leader::write_permit::WritePermit;
use crate::owners::api::{GLOBAL_OWNER, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, Names, VERSION};
use crate::owners::execute::{ObjectState, WriteResult, execute, log};
use crate::owners::metadata_watch::{MetadataWatch, list};
use crate::owners::removal::{self, Memory, WriteOutcome};
use crate::owners::snapshot::{GlobalOwner, GroupOwner, Guard, Listing, OwnerSnapshot, Role};
use crate::owners::write::{Next, ROLES, Write};
use crate::owners::{adoption, webhook};
use crate::rules::snapshot;
use crate::rules::written_rule::{WrittenRule, WrittenRules};
use crate::runtime::apply;
use crate::runtime::deference::Deference;
use crate::runtime::round::{Change, Changes, ReconcileContext, Rounds};

/// Maximum number of looks in a round; the next round does the rest.
const MAX_LOOKS: usize = 50;
/// Time until API servers go by a configuration that was written: a second at most, and as much again.
const TAKEN_UP: Duration = Duration::from_secs(2);
/// Interval at which the controller checks again that owners are guarded.
const UNGUARDED: Duration = Duration::from_secs(1);
/// Control loop of GlobalOwners, for as long as it is polled.
pub(crate) struct Owners {
    context: ReconcileContext,
    precreated_roles: bool,
    /// Endpoint for single requests.
    endpoint: Endpoint,
    /// Watches of both kinds, and of the configuration that guards them: only their changes matter. They last as long as
    /// the reflector is held.
    _reflector: Reflector,
    changes: watch::Receiver<Arc<Snapshot>>,
    watches: BTreeMap<GroupVersionResource, MetadataWatch>,
    news: Arc<Notify>,
    memories: BTreeMap<String, Memory>,
    written: WrittenRules,
    /// State of the guard.
    guard: Guard,
    /// Time for which the configuration that guards owners is left to a newer version.
    deference: Deference<()>,
    /// Time from which on the guard is in force, if this controller wrote it.
    guarded_from: Option<Instant>,
}

/// State of the cluster, without the owned objects.
struct Look {
    owners: Vec<GlobalOwner>,
    groups: Vec<GroupOwner>,
    roles: Vec<Role>,
}

impl Changes for Owners {
    async fn changed(&mut self) -> Change {
        tokio::select! {
            changed = self.changes.changed() => changed.into(),
            () = self.news.notified() => Change::Usual,
        }
    }
}

impl Rounds for Owners {
    type Input = ();

    // Shorter than elsewhere, as each wave of a removal waits until the objects of the wave before are gone.
    const SETTLE: Duration = Duration::from_millis(100);

    fn prepare(&mut self, permit: WritePermit) -> Option<()> {
        self.changes.mark_unchanged();
        if permit != WritePermit::Granted {
            // Another controller takes care of owners, or nobody does.
            self.watches.clear();
            self.memories.clear();
            return None;
        }
        Some(())
    }

    async fn round(&mut self, (): ()) -> Option<Instant> {
        self.act().await;
        let now = Instant::now();
        let failed = self.memories.values().filter_map(|memory| memory.next(now)).min();
        let unguarded = (self.guard != Guard::InForce).then(|| now + UNGUARDED);
        failed.into_iter().chain(unguarded).chain(self.deference.next(now)).min()
    }
}

impl Owners {
    /// Begins to watch. With `precreated_roles` somebody else makes the ClusterRoles of groups.
    pub(crate) fn new(context: ReconcileContext, written: WrittenRules, precreated_roles: bool) -> Self {
        let of_owners = |names: Names| Watched {
            group: GROUP,
            version: VERSION,
            plural: names.plural,
            kind: names.kind,
            required: false,
            names: None,
            fields: None,
        };
        let guard = Watched { required: false, ..snapshot::configuration(webhook::NAME) };
        let watched = vec![of_owners(GLOBAL_OWNERS), of_owners(GROUP_OWNERS), guard];
        let options = ReflectorOptions {
            control_plane: ControlPlane::Kubernetes,
            export_name: context.export_name.clone(),
            watched,
            allowance: context.allowance,
        };
        let (reflector, _) = Reflector::start(context.connection.clone(), options);
        Self {
            endpoint: apply::own_endpoint(&context.connection),
            deference: Deference::new(context.deference),
            changes: reflector.subscribe(),
            _reflector: reflector,
            context,
            precreated_roles,
            watches: BTreeMap::new(),
            news: Arc::default(),
            memories: BTreeMap::new(),
            written,
            guard: Guard::Pending,
            guarded_from: None,
        }
    }

    async fn act(&mut self) {
        self.guard().await;
        for _ in 0..MAX_LOOKS {
            let look = match self.look().await {
                Ok(look) => look,
                Err(error) if error.is_not_found() => {
                    tracing::warn!(
                        "the API server does not serve GlobalOwners: apply config/owners, or leave `owners` out of \
                         --enable"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!("could not list GlobalOwners, trying again: {error}");
                    return;
                }
            };
            self.watch(&look);
            let writes = self.decide(look).await;
            if writes.is_empty() {
                return;
            }
            let done = execute(&self.endpoint, writes).await;
            log(&done);
            if !self.learn(done) {
                return;
            }
        }
        self.news.notify_one();
    }

    /// Installs the webhook configuration that guards owners: before anything is adopted, and again with each round.
    async fn guard(&mut self) {
        let clients = latest(&mut self.context.clients);
        let written = webhook::set_up(&self.endpoint, &clients, &mut self.deference, &self.context.metrics).await;
        if written == Ok(true) {
            self.guarded_from = Some(Instant::now() + TAKEN_UP);
        }
        self.guard = match written {
            Err(why) => {
                tracing::warn!("nothing is adopted: {why}");
                Guard::Missing(why)
            }
            Ok(_) if self.guarded_from.is_some_and(|from| Instant::now() < from) => Guard::Pending,
            Ok(_) => Guard::InForce,
        };
    }

    /// Lists owners, groups and roles; GlobalOwners first. If a GlobalOwner is deleted so that its dependents stay, the
    /// garbage collector takes the references off the GroupOwners before it lets go of the GlobalOwner.
    async fn look(&self) -> Result<Look, ApiError> {
        let owners = self.endpoint.list_json(&GLOBAL_OWNERS.collection()).await?;
        let groups = self.endpoint.list_json(&GROUP_OWNERS.collection()).await?;
        let roles = if self.precreated_roles {
            Vec::new()
        } else {
            let label = GLOBAL_OWNER.replace('/', "%2F");
            self.endpoint.list_json(&format!("{ROLES}?labelSelector={label}")).await?.items
        };
        Ok(Look {
            owners: owners.items.iter().filter_map(GlobalOwner::read).collect(),
            groups: groups.items.iter().filter_map(GroupOwner::read).collect(),
            roles: roles.iter().filter_map(Role::read).collect(),
        })
    }

    /// Watches the resources of all groups, and no others.
    fn watch(&mut self, look: &Look) {
        let mut desired: BTreeMap<GroupVersionResource, Vec<Entry>> = BTreeMap::new();
        let entries = look.owners.iter().filter_map(|owner| owner.entries.as_ref().ok()).flatten();
        for entry in entries.chain(look.groups.iter().filter_map(|group| group.entry.as_ref().ok())) {
            let known = desired.entry(entry.resource.clone()).or_default();
            // The number of an entry in its list does not change what the entry selects.
            let entry = Entry { number: 0, ..entry.clone() };
            if !known.contains(&entry) {
                known.push(entry);
            }
        }
        self.watches.retain(|resource, watching| desired.get(resource).is_some_and(|entries| watching.is_for(entries)));
        for (resource, entries) in desired {
            let endpoint = self.context.connection.own_endpoint();
            let news = Arc::clone(&self.news);
            self.watches
                .entry(resource)
                .or_insert_with_key(|resource| MetadataWatch::start(endpoint, resource.clone(), entries, news));
        }
    }

    /// Returns the writes to do, each with the UID of its GlobalOwner.
    async fn decide(&mut self, look: Look) -> Vec<(String, Write)> {
        let now = Instant::now();
        let Look { mut owners, groups, roles } = look;
        owners.extend(self.gone(&owners, &groups, &roles).await);
        let uids: BTreeSet<String> = owners.iter().map(|owner| owner.uid.clone()).collect();
        self.memories.retain(|uid, _| uids.contains(uid));
        self.context.metrics.owners(owners.iter().filter_map(GlobalOwner::phase));
        let mut writes = Vec::new();
        let mut other_entries = Vec::new();
        if owners.iter().any(|owner| owner.is_deleting) {
            let entries =
                owners.iter().filter(|owner| !owner.is_deleting).filter_map(|owner| owner.entries.as_ref().ok());
            other_entries.extend(entries.flatten().cloned());
        }
        let needs_rules = owners.iter().any(|owner| owner.order == Order::ByRules);
        let rules = if needs_rules { self.rules() } else { Ok(Vec::new()) };
        for owner in owners {
            let (rules, unordered) = match &rules {
                _ if owner.order == Order::Listed => (Vec::new(), None),
                Ok(rules) => (rules.clone(), None),
                Err(why) if owner.is_deleting => (Vec::new(), Some(why.clone())),
                Err(why) => {
                    tracing::debug!(owner = owner.name, "the rules that order its groups are not loaded: {why}");
                    continue;
                }
            };
            let of_it = |uid: &str| uid == owner.uid;
            let mut groups: Vec<_> = groups
                .iter()
                .filter(|group| GroupOwner::global_uid(&group.object).is_some_and(of_it))
                .cloned()
                .collect();
            groups.sort_by(|one, other| (one.index, &one.name).cmp(&(other.index, &other.name)));
            let roles = roles.iter().filter(|role| role.global_uid().is_some_and(of_it)).cloned().collect();
            let mut observed = OwnerSnapshot {
                listings: self.listings(&owner, &groups),
                others: if owner.is_deleting { other_entries.clone() } else { Vec::new() },
                owner,
                groups,
                roles,
                rules,
                unordered,
                precreated_roles: self.precreated_roles,
                guard: self.guard.clone(),
                now: k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            };
            let memory = self.memories.entry(observed.owner.uid.clone()).or_default();
            if let Some(keys) = observed.keys() {
                memory.keep(|key| keys.contains(key));
            }
            let mut next = decide(&observed, memory, now);
            let mut listed = BTreeSet::new();
            // One list may show that another one is needed.
            while !next.lists.is_subset(&listed) {
                for resource in next.lists.difference(&listed) {
                    let listing = list(&self.endpoint, resource, &observed).await;
                    observed.listings.insert(resource.clone(), listing);
                }
                listed.append(&mut next.lists);
                next = decide(&observed, memory, now);
            }
            memory.note_step(&next.waits, std::mem::take(&mut next.looks), now);
            let uid = observed.owner.uid.clone();
            writes.extend(next.writes.into_iter().map(|write| (uid.clone(), write)));
            let status = next.status.filter(|status| observed.owner.object.get("status") != Some(status));
            if let Some(status) = status {
                let mut object = observed.owner.object;
                if let Some(fields) = object.as_object_mut() {
                    fields.insert("status".to_owned(), status);
                }
                let write = Write::Status(object);
                if memory.is_due(&write.key(), now) {
                    writes.push((uid, write));
                }
            }
        }
        writes
    }

    /// Returns the GlobalOwners that are gone and still have GroupOwners or roles: somebody took the finalizer away.
    async fn gone(&self, owners: &[GlobalOwner], groups: &[GroupOwner], roles: &[Role]) -> Vec<GlobalOwner> {
        let made = groups.iter().map(|group| &group.object).chain(roles.iter().map(|role| &role.object));
        let named: BTreeMap<_, _> = made.filter_map(GlobalOwner::of_made).collect();
        let mut gone = Vec::new();
        for (uid, name) in named {
            if owners.iter().any(|owner| owner.uid == uid) {
                continue;
            }
            // The GlobalOwner may be newer than the list.
            let found = match self.endpoint.get_json(&GLOBAL_OWNERS.path(&name)).await {
                Ok(found) => GlobalOwner::read(&found).is_some_and(|owner| owner.uid == uid),
                Err(error) => !error.is_not_found(),
            };
            if !found {
                gone.push(GlobalOwner::gone(uid, name));
            }
        }
        gone
    }

    /// Returns the rules that order groups. Fails if they are not known.
    fn rules(&mut self) -> Result<Vec<WrittenRule>, String> {
        let state = self.context.rules.borrow().clone();
        if let Some(why) = state.unseen() {
            return Err(why.to_owned());
        }
        Ok(self.written.read(&state).into_iter().map(|(_, rule)| rule).collect())
    }

    fn listings(&self, owner: &GlobalOwner, groups: &[GroupOwner]) -> BTreeMap<GroupVersionResource, Listing> {
        let entries = owner.entries.iter().flatten().chain(groups.iter().filter_map(|group| group.entry.as_ref().ok()));
        let resources: BTreeSet<_> = entries.map(|entry| entry.resource.clone()).collect();
        let listing = |resource| {
            let listing = self.watches.get(&resource).map_or(Listing::Pending, MetadataWatch::listing);
            (resource, listing)
        };
        resources.into_iter().map(listing).collect()
    }

    /// Takes in the results of writes. Returns true if it is worth while to look again at once.
    fn learn(&mut self, done: Vec<WriteResult>) -> bool {
        let now = Instant::now();
        let mut goes_on = false;
        for WriteResult { owner, write, came, seen } in done {
            if let Some(memory) = self.memories.get_mut(&owner) {
                goes_on |= came == WriteOutcome::Done && !matches!(write, Write::Status(_) | Write::Event(_));
                memory.note(&write.key(), came, now);
            }
            match seen {
                Some(ObjectState::Is(resource, metadata)) => {
                    if let Some(watching) = self.watches.get(&resource) {
                        watching.saw(metadata);
                    }
                }
                Some(ObjectState::Gone(resource, metadata)) => {
                    if let Some(watching) = self.watches.get(&resource) {
                        watching.lost(&metadata);
                    }
                }
                None => {}
            }
        }
        goes_on
    }
}

fn decide(observed: &OwnerSnapshot, memory: &Memory, now: Instant) -> Next {
    match &observed.owner {
        owner if owner.is_gone => adoption::after(observed, memory, now),
        owner if owner.is_deleting => removal::next(observed, memory, now),
        _ => adoption::next(observed, memory, now),
    }
}
