//! Runs rounds: looks, decides, writes, and looks again until nothing is left to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{GroupVersionResource, Home, Rule};
use depguard_kcp::{ApiError, Endpoint, Mirror, MirrorOptions, MirrorState, Watched};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::api::{GLOBAL_OWNER, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, Names, VERSION};
use super::execute::{Done, Seen, execute, log};
use super::guard;
use super::keep;
use super::observed::{GlobalOwner, GroupOwner, Guard, Listing, Observed, Role};
use super::removal::{self, Came, Memory, Order};
use super::spec::Entry;
use super::watching::{Watching, list};
use super::write::{Next, ROLES, Write};
use crate::deference::Deference;
use crate::gate::Permit;
use crate::install;
use crate::observe;
use crate::rounds::{Basis, while_granted};

/// How long to wait for more changes after one: less than elsewhere, as a wave of a removal waits for all that the one
/// before it takes away.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Looks in a round; what is left then is done in the next.
const MOST_LOOKS: usize = 50;
/// How long API servers take until they go by a configuration that was written: a second at most, and as much again.
const TAKEN_UP: Duration = Duration::from_secs(2);
/// After how long it is looked again whether they are guarded.
const UNGUARDED: Duration = Duration::from_secs(1);
/// The shortest time until something is tried again.
const SOONEST: Duration = Duration::from_millis(100);

/// Sees to GlobalOwners for as long as it is polled.
pub(crate) struct Owners {
    basis: Basis,
    precreated_roles: bool,
    /// For single requests.
    endpoint: Endpoint,
    /// Of both kinds, and of what guards them: only that something changed counts. It lasts as long as it is held.
    _mirror: Mirror,
    changes: watch::Receiver<Arc<MirrorState>>,
    watches: BTreeMap<GroupVersionResource, Watching>,
    news: Arc<Notify>,
    memories: BTreeMap<String, Memory>,
    /// Whether they are guarded.
    guard: Guard,
    /// Whether what guards them is left to a newer version.
    deference: Deference<()>,
    /// Since when what guards them is in force, where this controller wrote it.
    guarded_from: Option<Instant>,
}

/// What there is, but for the objects.
struct Look {
    owners: Vec<GlobalOwner>,
    groups: Vec<GroupOwner>,
    roles: Vec<Role>,
}

impl Owners {
    /// Begins to watch. With `precreated_roles` somebody else makes the ClusterRoles of groups.
    pub(crate) fn new(basis: Basis, precreated_roles: bool) -> Self {
        let of_owners = |names: Names| Watched {
            group: GROUP,
            version: VERSION,
            plural: names.plural,
            kind: names.kind,
            required: false,
            names: None,
        };
        let guard = Watched { required: false, ..observe::configuration(guard::NAME) };
        let watched = vec![of_owners(GLOBAL_OWNERS), of_owners(GROUP_OWNERS), guard];
        let options = MirrorOptions {
            home: Home::Kubernetes,
            export_name: basis.export_name.clone(),
            watched,
            allowance: basis.allowance,
        };
        let (mirror, _) = Mirror::start(basis.connection.clone(), options);
        Self {
            endpoint: install::home(&basis.connection),
            deference: Deference::new(basis.deference),
            changes: mirror.subscribe(),
            _mirror: mirror,
            basis,
            precreated_roles,
            watches: BTreeMap::new(),
            news: Arc::default(),
            memories: BTreeMap::new(),
            guard: Guard::Pending,
            guarded_from: None,
        }
    }

    /// A round whenever something changed, or what failed is due; only while this controller is to write.
    pub(crate) async fn run(mut self) {
        loop {
            self.changes.borrow_and_update();
            let may_write = *self.basis.permit.borrow_and_update() == Permit::Granted;
            if may_write {
                while_granted(self.basis.permit.clone(), self.round()).await;
            } else {
                // Another one sees to it, or nobody.
                self.watches.clear();
                self.memories.clear();
            }
            if !self.wait().await {
                return;
            }
        }
    }

    /// Waits for a reason for another round. `false`: there can't be one any more.
    async fn wait(&mut self) -> bool {
        let resync = Instant::now() + self.basis.resync;
        let now = Instant::now();
        let failed = self.memories.values().filter_map(|memory| memory.next(now)).min();
        let unguarded = (self.guard != Guard::InForce).then(|| Instant::now() + UNGUARDED);
        let due = failed.into_iter().chain(unguarded).chain(self.deference.next(Instant::now())).min();
        let due = due.map_or(resync, |due| due.max(Instant::now() + SOONEST).min(resync));
        tokio::select! {
            changed = self.changes.changed() => {
                sleep(DEBOUNCE).await;
                changed.is_ok()
            }
            () = self.news.notified() => {
                sleep(DEBOUNCE).await;
                true
            }
            changed = self.basis.permit.changed() => changed.is_ok(),
            changed = self.basis.clients.changed() => changed.is_ok(),
            () = sleep_until(due) => true,
        }
    }

    async fn round(&mut self) {
        self.guard().await;
        for _ in 0..MOST_LOOKS {
            let look = match self.look().await {
                Ok(look) => look,
                Err(error) if error.is_not_found() => {
                    tracing::warn!(
                        "there are no GlobalOwners here: apply config/owners, or leave `owners` out of --enable"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!("could not look at GlobalOwners, trying again: {error}");
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

    /// Sees to the webhook configuration: before anything is adopted, and again with each round.
    async fn guard(&mut self) {
        let clients = self.basis.clients.borrow_and_update().clone();
        let written = guard::set_up(&self.endpoint, &clients, &mut self.deference, &self.basis.metrics).await;
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

    /// Lists what there is. GlobalOwners first: of one that is deleted so that its dependents stay, the garbage collector
    /// takes the references off the GroupOwners before it lets go of the GlobalOwner.
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
        let mut wanted: BTreeMap<GroupVersionResource, Vec<Entry>> = BTreeMap::new();
        let entries = look.owners.iter().filter_map(|owner| owner.entries.as_ref().ok()).flatten();
        for entry in entries.chain(look.groups.iter().filter_map(|group| group.entry.as_ref().ok())) {
            let known = wanted.entry(entry.resource.clone()).or_default();
            // Which number it has in its list says nothing of what it selects.
            let entry = Entry { number: 0, ..entry.clone() };
            if !known.contains(&entry) {
                known.push(entry);
            }
        }
        self.watches.retain(|resource, watching| wanted.get(resource).is_some_and(|entries| watching.is_for(entries)));
        for (resource, entries) in wanted {
            let endpoint = self.basis.connection.home();
            let news = Arc::clone(&self.news);
            self.watches
                .entry(resource)
                .or_insert_with_key(|resource| Watching::start(endpoint, resource.clone(), entries, news));
        }
    }

    /// What is to be written, each with the UID of the GlobalOwner that it is for.
    async fn decide(&mut self, look: Look) -> Vec<(String, Write)> {
        let now = Instant::now();
        let Look { mut owners, groups, roles } = look;
        owners.extend(self.gone(&owners, &groups, &roles).await);
        let uids: BTreeSet<String> = owners.iter().map(|owner| owner.uid.clone()).collect();
        self.memories.retain(|uid, _| uids.contains(uid));
        self.basis.metrics.owners(owners.iter().filter_map(GlobalOwner::phase));
        let mut writes = Vec::new();
        let mut standing = Vec::new();
        if owners.iter().any(|owner| owner.is_deleting) {
            let entries =
                owners.iter().filter(|owner| !owner.is_deleting).filter_map(|owner| owner.entries.as_ref().ok());
            standing.extend(entries.flatten().cloned());
        }
        for owner in owners {
            let (rules, broken_rules, unordered) = match self.rules(owner.order) {
                Ok((rules, broken)) => (rules, broken, None),
                Err(why) if owner.is_deleting => (Vec::new(), Vec::new(), Some(why)),
                Err(why) => {
                    tracing::debug!(owner = owner.name, "its groups go in the order of rules: {why}");
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
            let mut observed = Observed {
                listings: self.listings(&owner, &groups),
                others: if owner.is_deleting { standing.clone() } else { Vec::new() },
                owner,
                groups,
                roles,
                rules,
                broken_rules,
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
            // What one list shows may ask for another.
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

    /// The GlobalOwners that are no more, and have GroupOwners or roles yet: somebody took the finalizer away.
    async fn gone(&self, owners: &[GlobalOwner], groups: &[GroupOwner], roles: &[Role]) -> Vec<GlobalOwner> {
        let made = groups.iter().map(|group| &group.object).chain(roles.iter().map(|role| &role.object));
        let named: BTreeMap<_, _> = made.filter_map(GlobalOwner::of_made).collect();
        let mut gone = Vec::new();
        for (uid, name) in named {
            if owners.iter().any(|owner| owner.uid == uid) {
                continue;
            }
            // It may be newer than the list.
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

    /// The rules that say in which order groups go, and the names of those that can't be used; an error: they are wanted and
    /// not known.
    fn rules(&self, order: Order) -> Result<(Vec<Rule>, Vec<String>), String> {
        if order == Order::Listed {
            return Ok((Vec::new(), Vec::new()));
        }
        let state = self.basis.rules.borrow().clone();
        if let Some(why) = state.unseen() {
            return Err(why.to_owned());
        }
        let mut broken = Vec::new();
        let mut rules = Vec::new();
        let known = state.resource(Watched::RULES.plural).ok_or("DependencyRules are not followed")?;
        for rule in known.values() {
            match Rule::parse(Home::Kubernetes, rule) {
                Ok(rule) => rules.push(rule),
                Err(_) => {
                    let name = rule.pointer("/metadata/name").and_then(Value::as_str);
                    broken.push(name.unwrap_or_default().to_owned());
                }
            }
        }
        Ok((rules, broken))
    }

    fn listings(&self, owner: &GlobalOwner, groups: &[GroupOwner]) -> BTreeMap<GroupVersionResource, Listing> {
        let entries = owner.entries.iter().flatten().chain(groups.iter().filter_map(|group| group.entry.as_ref().ok()));
        let resources: BTreeSet<_> = entries.map(|entry| entry.resource.clone()).collect();
        let listing = |resource| {
            let listing = self.watches.get(&resource).map_or(Listing::Pending, Watching::listing);
            (resource, listing)
        };
        resources.into_iter().map(listing).collect()
    }

    /// Takes in what writes came to. Whether it is worth while to look again at once.
    fn learn(&mut self, done: Vec<Done>) -> bool {
        let now = Instant::now();
        let mut goes_on = false;
        for Done { owner, write, came, seen } in done {
            if let Some(memory) = self.memories.get_mut(&owner) {
                goes_on |= came == Came::Done && !matches!(write, Write::Status(_) | Write::Event(_));
                memory.note(&write.key(), came, now);
            }
            match seen {
                Some(Seen::Is(resource, metadata)) => {
                    if let Some(watching) = self.watches.get(&resource) {
                        watching.saw(metadata);
                    }
                }
                Some(Seen::Gone(resource, metadata)) => {
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

fn decide(observed: &Observed, memory: &Memory, now: Instant) -> Next {
    match &observed.owner {
        owner if owner.is_gone => keep::after(observed, memory, now),
        owner if owner.is_deleting => removal::next(observed, memory, now),
        _ => keep::next(observed, memory, now),
    }
}
