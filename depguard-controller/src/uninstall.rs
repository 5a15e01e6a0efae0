//! Takes away what the controller installed, wherever it is, also while the webhook is dead and controllers still run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ExportName, Home};
use depguard_kcp::{
    ApiError, ConnectError, ConnectOptions, Connection, Endpoint, Mirror, MirrorOptions, MirrorState, Watched,
};
use tokio::time::{Instant, sleep, timeout};

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::config::{LEASE, NAMESPACE};
use crate::configuration;
use crate::gate::{self, LOOK, MARK};
use crate::install;
use crate::observe;
use crate::plan::Place;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// For how long nothing may come back: longer than controllers take to see that they are to write no more.
const QUIET: Duration = Duration::from_secs(LOOK.as_secs() + 2);
/// How often a configuration may come back.
const MOST_RETURNS: usize = 5;

/// What is to be uninstalled, and from where.
#[derive(Debug, Clone)]
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
pub struct Uninstalled {
    /// Where a configuration was taken away: workspaces, or `the cluster`.
    pub removed: BTreeSet<String>,
    /// What the operator should know besides.
    pub notes: BTreeSet<String>,
}

/// Why something is left.
#[derive(Debug, thiserror::Error)]
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
    #[error("ValidatingWebhookConfiguration {} is left in {}: delete it by hand", configuration::NAME, list(left))]
    Left {
        /// Where, and why.
        left: BTreeMap<String, String>,
    },
    /// Somebody puts back what was removed.
    #[error(
        "ValidatingWebhookConfiguration {} comes back in {place}: stop the controller (`kubectl scale deployment \
         depguard-controller --replicas=0`), and run it again",
        configuration::NAME
    )]
    Returns {
        /// Where.
        place: String,
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
}

/// Removes every configuration that is depguard's, and no other, and waits until all are gone and none comes back.
///
/// A mark tells running controllers to write no more. No webhook is asked about a configuration's deletion, so none has
/// to be alive. Done again it finds nothing to do.
pub async fn uninstall(what: Uninstall) -> Result<Uninstalled, UninstallError> {
    let end = Instant::now() + what.timeout;
    let options = ConnectOptions {
        kubeconfig: what.kubeconfig,
        context: what.context,
        base_host: what.base_host,
        home: what.home,
    };
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
    let watched = observe::watched(what.home)
        .into_iter()
        .filter(|watched| [observe::CONFIGURATIONS, Watched::BINDINGS.plural].contains(&watched.plural));
    let options = MirrorOptions { home: what.home, export_name: what.export_name.clone(), watched: watched.collect() };
    // The mirror lives as long as this future: dropped, it ends its watches.
    let (mirror, _) = Mirror::start(connection.clone(), options);
    let mut states = mirror.subscribe();
    let export_name = what.export_name.to_string();
    let mut quiet_since = None;
    let mut returns: BTreeMap<Place, usize> = BTreeMap::new();
    let mut marked = Instant::now();
    loop {
        if marked.elapsed() > MARK / 4 {
            // What can't be said again was said before.
            let _ = mark.set().await;
            marked = Instant::now();
        }
        let state = states.borrow_and_update().clone();
        let bindings = observe::bindings(&export_name, &state);
        let unseen = state.unseen();
        let left = match unseen {
            Some(_) => BTreeMap::new(),
            None => {
                note_unseen(&bindings, &mut done);
                remove(&connection, &state, &bindings, &mut done, &mut returns).await
            }
        };
        if let Some((place, _)) = returns.iter().find(|(_, times)| **times > MOST_RETURNS) {
            return Err(UninstallError::Returns { place: display(&bindings, place) });
        }
        let is_quiet = unseen.is_none() && left.is_empty();
        if !is_quiet {
            quiet_since = None;
        } else if quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
            return Ok(done);
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
        Home::Kubernetes => install::read(&install::home(connection)).await.ok().flatten(),
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

/// Deletes what there is, and gives what is left of it, and why.
async fn remove(
    connection: &Connection,
    state: &MirrorState,
    bindings: &Bindings,
    done: &mut Uninstalled,
    returns: &mut BTreeMap<Place, usize>,
) -> BTreeMap<String, String> {
    let mut left = BTreeMap::new();
    let configurations = state.resource(observe::CONFIGURATIONS).into_iter().flat_map(|mirrored| &mirrored.objects);
    for ((place, _), found) in configurations.filter(|((_, name), _)| name == configuration::NAME) {
        let shown = display(bindings, place);
        if !configuration::is_ours(&found.value) {
            done.notes.insert(format!("the configuration in {shown} is not depguard's and was left alone"));
            continue;
        }
        let deleted = match install::endpoint(connection, &found.origin, place.as_ref()) {
            Ok(endpoint) => delete(&endpoint).await.map_err(|why| why.to_string()),
            Err(why) => Err(why),
        };
        let why = match deleted {
            Ok(true) => {
                let times = returns.entry(place.clone()).or_default();
                *times = times.saturating_add(1);
                done.removed.insert(shown.clone());
                "it was deleted, and is not gone yet".to_owned()
            }
            // Gone; the mirror will show it.
            Ok(false) => "the API server still shows it".to_owned(),
            Err(why) => why,
        };
        left.insert(shown, why);
    }
    left
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

/// Deletes the configuration as it is now, if it is ours. `false`: there was none.
async fn delete(endpoint: &Endpoint) -> Result<bool, ApiError> {
    match install::read(endpoint).await? {
        Some(existing) if configuration::is_ours(&existing) => {
            install::delete(endpoint, &existing).await.map(|()| true)
        }
        _ => Ok(false),
    }
}

fn by_hand(home: Home) -> &'static str {
    match home {
        Home::Kcp => "in the workspace of each provider",
        Home::Kubernetes => "in the cluster",
    }
}

fn list(left: &BTreeMap<String, String>) -> String {
    left.iter().map(|(place, why)| format!("{place} ({why})")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Uninstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.removed.is_empty() {
            writeln!(f, "there was nothing to remove")?;
        }
        for place in &self.removed {
            writeln!(f, "removed ValidatingWebhookConfiguration {} from {place}", configuration::NAME)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
