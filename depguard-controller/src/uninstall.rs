//! Takes away what the controller installed, wherever it is, also while the webhook is dead and controllers still run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ExportName, Home};
use depguard_kcp::{
    Allowance, ApiError, ConnectError, ConnectOptions, Connection, Endpoint, Mirror, MirrorOptions, MirrorState,
    Watched,
};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::config::{LEASE, NAMESPACE};
use crate::configuration;
use crate::gate::{self, LOOK, MARK};
use crate::install;
use crate::locks;
use crate::manifests::LOCK_EXPORT;
use crate::observe;
use crate::owners;
use crate::plan::Place;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// For how long nothing may come back: longer than controllers take to see that they are to write no more.
const QUIET: Duration = Duration::from_secs(LOOK.as_secs() + 2);
/// How often a configuration may come back.
const MOST_RETURNS: usize = 5;

/// What is to be uninstalled, and from where.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Uninstall {
    /// Where depguard runs.
    pub home: Home,
    /// depguard's APIExport; not used in home kubernetes.
    pub export_name: ExportName,
    /// A kubeconfig file. Left out: what `KUBECONFIG` names, else the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// One of its contexts. Left out: its current one.
    pub context: Option<String>,
    /// The base URL of kcp, without a workspace. Left out: from the kubeconfig.
    pub base_host: Option<String>,
    /// The controllers' `leader_election_namespace`. Left out: in home kubernetes the namespace that is depguard's own by
    /// what is installed, where that can be seen; else `depguard-system`.
    pub leader_election_namespace: Option<String>,
    /// The controllers' `leader_election_id`.
    pub leader_election_id: String,
    /// When to give up.
    pub timeout: Duration,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uninstalled {
    /// What was taken away.
    pub removed: BTreeSet<Removed>,
    /// What the operator should know besides.
    pub notes: BTreeSet<String>,
}

/// A configuration that was taken away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Removed {
    /// Its name.
    pub configuration: &'static str,
    /// From where: a workspace, or `the cluster`.
    pub place: String,
}

/// Every configuration that depguard makes: for rules, and for what can be switched on beside them.
const NAMES: [&str; 5] = [
    configuration::NAME,
    locks::KINDS_CONFIGURATION,
    locks::CONFIGURATION,
    locks::COMPAT_CONFIGURATION,
    owners::guard::NAME,
];

/// Why something is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UninstallError {
    /// The API server can't be reached as said.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It can't be told what there is.
    #[error(
        "it could not be seen what is installed ({why}), so nothing more was removed: run it again, or delete \
         ValidatingWebhookConfiguration {} by hand {}", configuration::NAME, by_hand(*home)
    )]
    Unseen {
        /// Where depguard runs.
        home: Home,
        /// What failed.
        why: String,
    },
    /// A configuration can't be taken away, or comes back.
    #[error("{}: delete it by hand", list(left))]
    Left {
        /// What and where, and why.
        left: BTreeMap<Removed, String>,
    },
    /// Objects are owned, and what guards their owners stays.
    #[error("ValidatingWebhookConfiguration {} is left in the cluster, and no other: {why}", owners::guard::NAME)]
    Guarded {
        /// Why it is needed, and what to do.
        why: String,
    },
    /// Somebody puts back what was removed.
    #[error(
        "ValidatingWebhookConfiguration {} comes back in {}: stop the controller (`kubectl scale deployment \
         depguard-controller --replicas=0`), and run it again",
        what.configuration, what.place
    )]
    Returns {
        /// What, and where.
        what: Removed,
    },
}

impl Uninstall {
    /// What the stock binary takes without flags.
    pub fn new(home: Home, export_name: ExportName) -> Self {
        Self {
            home,
            export_name,
            kubeconfig: None,
            context: None,
            base_host: None,
            leader_election_namespace: None,
            leader_election_id: LEASE.to_owned(),
            timeout: Duration::from_secs(120),
        }
    }

    depguard_kcp::builder_methods! {
        home: Home,
        export_name: ExportName,
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
        base_host: Option<String>,
        leader_election_namespace: Option<String>,
        leader_election_id: String,
        timeout: Duration,
    }
}

/// Removes every configuration that is depguard's, and no other, and waits until all are gone and none comes back.
///
/// A mark tells running controllers to write no more. No webhook is asked about a configuration's deletion, so none has
/// to be alive. Done again it finds nothing to do.
pub async fn uninstall(what: Uninstall) -> Result<Uninstalled, UninstallError> {
    let end = Instant::now() + what.timeout;
    let options =
        ConnectOptions::new(what.home).kubeconfig(what.kubeconfig).context(what.context).base_host(what.base_host);
    let connection = Connection::open(&options).await?;
    let mut done = Uninstalled::default();
    let namespace = match what.leader_election_namespace {
        Some(given) => given,
        None => namespace_of_controllers(&connection, what.home).await,
    };
    let mark = Mark { endpoint: connection.home(), namespace, id: what.leader_election_id };
    match mark.set().await {
        // Until every controller has seen it.
        Ok(()) => sleep(QUIET.min(what.timeout / 2)).await,
        Err(why) => {
            done.notes.insert(format!("controllers that still run could not be told to write no more: {why}"));
        }
    }
    // The mirrors live as long as this future: dropped, they end their watches.
    let start = |export_name| {
        let options =
            MirrorOptions { home: what.home, export_name, watched: watched(what.home), allowance: Allowance::DEFAULT };
        Mirror::start(connection.clone(), options).0
    };
    let mirror = start(what.export_name.clone());
    let mut states = mirror.subscribe();
    let of_locks = match what.home {
        Home::Kcp if has_locks(&connection).await => Some(start(locks::export())),
        _ => None,
    };
    let export_name = what.export_name.to_string();
    let mut quiet_since = None;
    let mut returns: BTreeMap<Removed, usize> = BTreeMap::new();
    let mut marked = Instant::now();
    loop {
        if marked.elapsed() > MARK / 4 {
            // What can't be said again was said before.
            let _ = mark.set().await;
            marked = Instant::now();
        }
        let state = states.borrow_and_update().clone();
        let beside = of_locks.as_ref().map(Mirror::state);
        let bindings = observe::bindings(&export_name, &state);
        let unseen = state.unseen().or(beside.as_ref().and_then(|state| state.unseen()));
        let (mut left, mut guarded) = (BTreeMap::new(), None);
        if unseen.is_none() {
            let mut removal = Removal {
                connection: &connection,
                done: &mut done,
                returns: &mut returns,
                left: &mut left,
                guarded: &mut guarded,
            };
            note_unseen(&bindings, removal.done);
            removal.all(&state, &bindings).await;
            if let Some(state) = &beside {
                removal.all(state, &observe::bindings(LOCK_EXPORT, state)).await;
            }
            removal.at_home(what.home).await;
        }
        if let Some((what, _)) = returns.iter().find(|(_, times)| **times > MOST_RETURNS) {
            return Err(UninstallError::Returns { what: what.clone() });
        }
        let is_quiet = unseen.is_none() && left.is_empty();
        if !is_quiet {
            quiet_since = None;
        } else if quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
            return guarded.map_or(Ok(done), |why| Err(UninstallError::Guarded { why }));
        }
        if Instant::now() >= end {
            return match unseen {
                Some(why) => Err(UninstallError::Unseen { home: what.home, why: why.to_owned() }),
                None if left.is_empty() => Err(UninstallError::Unseen {
                    home: what.home,
                    why: "there was no time left to see that nothing comes back".to_owned(),
                }),
                None => Err(UninstallError::Left { left }),
            };
        }
        // A change, or the next look.
        let _ = timeout(PAUSE, states.changed()).await;
        sleep(PAUSE / 5).await;
    }
}

/// Where controllers look for the mark, unless they were told otherwise.
async fn namespace_of_controllers(connection: &Connection, home: Home) -> String {
    let installed = match home {
        Home::Kcp => None,
        // What can't be seen now is told of below, where it is to be removed.
        Home::Kubernetes => install::read(&install::home(connection), configuration::NAME).await.ok().flatten(),
    };
    let ours = installed.as_ref().filter(|found| configuration::is_ours(found));
    ours.and_then(configuration::own_namespace).unwrap_or(NAMESPACE).to_owned()
}

/// Tells controllers to write no more.
struct Mark {
    endpoint: Endpoint,
    namespace: String,
    id: String,
}

impl Mark {
    async fn set(&self) -> Result<(), ApiError> {
        let mark = gate::mark(&self.endpoint, &self.namespace, &self.id);
        let known = mark.read().await?;
        mark.write(known.as_ref(), "uninstall", MARK).await.map(drop)
    }
}

/// What must be mirrored. In home kubernetes only what is for rules: the right to more may be missing, and each is looked
/// for by its name.
fn watched(home: Home) -> Vec<Watched> {
    let configurations = observe::configuration(configuration::NAME);
    match home {
        Home::Kubernetes => vec![configurations],
        Home::Kcp => vec![configurations, observe::configuration(locks::CONFIGURATION), Watched::BINDINGS],
    }
}

/// Whether there is an APIExport of locks. Who can't see that has none.
async fn has_locks(connection: &Connection) -> bool {
    let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
    let Ok(slices) = install::home(connection).list_json(slices).await else { return false };
    let export = |slice: &Value| slice.pointer("/spec/export/name").and_then(Value::as_str) == Some(LOCK_EXPORT);
    slices.items.iter().any(export)
}

/// Deletes what there is, and takes down what is left of it, and why.
struct Removal<'u> {
    connection: &'u Connection,
    done: &'u mut Uninstalled,
    returns: &'u mut BTreeMap<Removed, usize>,
    left: &'u mut BTreeMap<Removed, String>,
    /// Why what guards owners stays, where it does.
    guarded: &'u mut Option<String>,
}

impl Removal<'_> {
    /// What is mirrored.
    async fn all(&mut self, state: &MirrorState, bindings: &Bindings) {
        for mirrored in state.resources().iter().filter(|found| found.watched.plural == observe::CONFIGURATIONS) {
            let Some(configuration) = mirrored.watched.names else { continue };
            for ((place, _), found) in &mirrored.objects {
                let what = Removed { configuration, place: display(bindings, place) };
                if !configuration::is_ours(&found.value) {
                    self.leave(&what);
                    continue;
                }
                let deleted = match install::endpoint(self.connection, &found.origin, place.as_ref()) {
                    Ok(endpoint) => delete(&endpoint, configuration).await.map_err(|why| why.to_string()),
                    Err(why) => Err(why),
                };
                self.note(what, deleted);
            }
        }
    }

    /// What lies where the kubeconfig points and is not mirrored. Who has no right to one did not install it.
    async fn at_home(&mut self, home: Home) {
        let (names, place) = match home {
            Home::Kubernetes => (NAMES.split_at(1).1, "the cluster"),
            Home::Kcp => (&[locks::KINDS_CONFIGURATION][..], "depguard's own workspace"),
        };
        for configuration in names {
            if *configuration == owners::guard::NAME && self.is_guarding().await {
                continue;
            }
            let what = Removed { configuration, place: place.to_owned() };
            match delete(&install::home(self.connection), configuration).await {
                Ok(Deleted::Foreign) => self.leave(&what),
                Ok(Deleted::No) => {}
                Err(error) if error.status() == Some(403) => {}
                other => self.note(what, other.map_err(|why| why.to_string())),
            }
        }
    }

    /// Whether what guards owners is there, and is to stay.
    async fn is_guarding(&mut self) -> bool {
        let endpoint = install::home(self.connection);
        let may_be_ours = match install::read(&endpoint, owners::guard::NAME).await {
            Ok(found) => found.is_some_and(|found| configuration::is_ours(&found)),
            Err(error) => error.status() != Some(403),
        };
        if may_be_ours {
            *self.guarded = owners::guard::needed(&endpoint).await;
        }
        self.guarded.is_some()
    }

    fn leave(&mut self, what: &Removed) {
        let Removed { place, .. } = what;
        self.done.notes.insert(format!("the configuration in {place} is not depguard's and was left alone"));
    }

    fn note(&mut self, what: Removed, deleted: Result<Deleted, String>) {
        let why = match deleted {
            // Gone; the mirror will show it.
            Ok(Deleted::No | Deleted::Foreign) => "the API server still shows it".to_owned(),
            Ok(Deleted::Yes) => {
                let times = self.returns.entry(what.clone()).or_default();
                *times = times.saturating_add(1);
                self.done.removed.insert(what.clone());
                "it was deleted, and is not gone yet".to_owned()
            }
            Err(why) => why,
        };
        self.left.insert(what, why);
    }
}

/// Workspaces into which depguard can't look may hold a configuration from when it could.
fn note_unseen(bindings: &Bindings, done: &mut Uninstalled) {
    for (cluster, _) in bindings.iter().filter(|(_, binding)| binding.claim(CONFIGURATIONS) == Claim::NotAccepted) {
        let shown = display(bindings, &Some(cluster.clone()));
        done.notes.insert(format!(
            "{shown} does not accept depguard's claim, so it could not be looked into: `kubectl get \
             validatingwebhookconfigurations {}` there",
            configuration::NAME
        ));
    }
}

fn display(bindings: &Bindings, place: &Place) -> String {
    let Some(cluster) = place else { return "the cluster".to_owned() };
    match bindings.of(cluster).and_then(|binding| binding.path.as_ref()) {
        Some(path) => format!("workspace {path}"),
        None => format!("the workspace with logical cluster {cluster}"),
    }
}

/// What became of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deleted {
    Yes,
    /// There was none.
    No,
    Foreign,
}

/// Deletes the configuration of this name as it is now, if it is ours.
async fn delete(endpoint: &Endpoint, name: &str) -> Result<Deleted, ApiError> {
    match install::read(endpoint, name).await? {
        Some(existing) if configuration::is_ours(&existing) => {
            install::delete(endpoint, &existing).await.map(|()| Deleted::Yes)
        }
        Some(_) => Ok(Deleted::Foreign),
        None => Ok(Deleted::No),
    }
}

fn by_hand(home: Home) -> &'static str {
    match home {
        Home::Kcp => "in the workspace of each provider",
        Home::Kubernetes => "in the cluster",
    }
}

fn list(left: &BTreeMap<Removed, String>) -> String {
    let left = left.iter().map(|(Removed { configuration, place }, why)| {
        format!("ValidatingWebhookConfiguration {configuration} is left in {place} ({why})")
    });
    left.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Uninstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.removed.is_empty() {
            writeln!(f, "there was nothing to remove")?;
        }
        for Removed { configuration, place } in &self.removed {
            writeln!(f, "removed ValidatingWebhookConfiguration {configuration} from {place}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
