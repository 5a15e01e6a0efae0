//! Removal of all that the controller installed, wherever it is, even while the webhook is dead and controllers still
//! run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{
    Allowance, ApiError, ConnectError, ConnectOptions, Connection, Endpoint, KubeconfigOverrides, Reflector,
    ReflectorOptions, RegisterKeySecret, RequestLog, Snapshot, Watched, latest,
};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::leader::uninstall_watch::MAX_LOOK_AGE;
use crate::leader::write_permit::{self, UNINSTALL_MARK_FRESH};
use crate::model::api_bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::model::install_place::InstallPlace;
use crate::model::names::{
    COMPAT_LOCKS_CONFIGURATION, LEASE, LOCK_EXPORT, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION, NAMESPACE,
    REFERENCES_CONFIGURATION, RULES_CONFIGURATION, SPEC_ADMISSION_CONFIGURATION,
};
use crate::model::webhook_configuration;
use crate::rules::snapshot;
use crate::runtime::apply;
use crate::uninstall::registers;
use crate::{locks, owners};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for which nothing may come back: longer than controllers take to see that they must write no more, and to end
/// a write under way.
const QUIET: Duration = Duration::from_secs(MAX_LOOK_AGE.as_secs() + 2);
/// Maximum number of times that a configuration may come back.
const MAX_RETURNS: usize = 5;

/// Settings of an uninstall.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Uninstall {
    /// Control plane on which depguard runs.
    pub control_plane: ControlPlane,
    /// depguard's APIExport; not used in plain Kubernetes.
    pub export_name: ExportName,
    /// Path of a kubeconfig file. Left out: the file that `KUBECONFIG` names, else the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Left out: its current one.
    pub context: Option<String>,
    /// Base URL of kcp, without a workspace. Left out: the URL in the kubeconfig.
    pub base_host: Option<String>,
    /// Values that replace the kubeconfig's.
    pub overrides: KubeconfigOverrides,
    /// Time limit of each request. Left out: the limits that depguard sets itself.
    pub request_timeout: Option<Duration>,
    /// Function that is told of each request, if any.
    pub request_log: Option<RequestLog>,
    /// The controllers' `leader_election_namespace`. Left out: in plain Kubernetes depguard's own namespace according to
    /// the installed configuration, if that can be read; else `depguard-system`.
    pub leader_election_namespace: Option<String>,
    /// The controllers' `leader_election_id`.
    pub leader_election_id: String,
    /// Time after which the uninstall gives up.
    pub timeout: Duration,
}

/// Result of an uninstall.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uninstalled {
    /// Configurations that were removed.
    pub removed: BTreeSet<Removed>,
    /// Number of reference registers that were removed.
    pub registers: usize,
    /// Further facts that the operator should know.
    pub notes: BTreeSet<String>,
}

/// Removed configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Removed {
    /// Name of the configuration.
    pub configuration: &'static str,
    /// Place that it was removed from: a workspace, or `the cluster`.
    pub place: String,
}

/// Names of all configurations that depguard makes: for rules, and for features beside them.
const NAMES: [&str; 7] = [
    RULES_CONFIGURATION,
    REFERENCES_CONFIGURATION,
    SPEC_ADMISSION_CONFIGURATION,
    LOCK_KINDS_CONFIGURATION,
    LOCKS_CONFIGURATION,
    COMPAT_LOCKS_CONFIGURATION,
    owners::webhook::NAME,
];

/// Reason why something is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UninstallError {
    /// The API server can't be reached as configured.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The installed configurations can't be seen.
    #[error(
        "could not find all installed configurations ({why}), so nothing more was removed: run the uninstall again, \
         or delete ValidatingWebhookConfiguration {} by hand {}", RULES_CONFIGURATION, by_hand(*control_plane)
    )]
    Unseen {
        /// Control plane on which depguard runs.
        control_plane: ControlPlane,
        /// Error that occurred.
        why: String,
    },
    /// A configuration can't be removed, or is not gone yet.
    #[error("{}: delete it by hand", list(left))]
    Left {
        /// Configurations that are left, each with the reason.
        left: BTreeMap<Removed, String>,
    },
    /// Objects are owned, and the configuration that guards their owners stays.
    #[error("only ValidatingWebhookConfiguration {} is left in the cluster: {why}", owners::webhook::NAME)]
    Guarded {
        /// Reason why it is needed, and what to do.
        why: String,
    },
    /// Somebody puts a removed configuration back.
    #[error(
        "a controller installs ValidatingWebhookConfiguration {} in {} again: stop the controller (`kubectl scale \
         deployment depguard-controller --replicas=0`), and run the uninstall again",
        what.configuration, what.place
    )]
    Returns {
        /// The configuration that comes back.
        what: Removed,
    },
}

impl Uninstall {
    /// Returns the settings of the stock binary without flags.
    pub fn new(control_plane: ControlPlane, export_name: ExportName) -> Self {
        Self {
            control_plane,
            export_name,
            kubeconfig: None,
            context: None,
            base_host: None,
            overrides: KubeconfigOverrides::default(),
            request_timeout: None,
            request_log: None,
            leader_election_namespace: None,
            leader_election_id: LEASE.to_owned(),
            timeout: Duration::from_secs(120),
        }
    }

    depguard_kcp::builder_methods! {
        control_plane: ControlPlane,
        export_name: ExportName,
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
        base_host: Option<String>,
        overrides: KubeconfigOverrides,
        request_timeout: Option<Duration>,
        request_log: Option<RequestLog>,
        leader_election_namespace: Option<String>,
        leader_election_id: String,
        timeout: Duration,
    }
}

/// Removes all configurations that are depguard's, and no others. Waits until all are gone and none comes back, and then
/// deletes the reference registers.
///
/// A mark tells running controllers to write no more. API servers ask no webhook about the deletion of a configuration,
/// so no webhook has to be alive. A second uninstall finds nothing to do.
pub async fn uninstall(what: Uninstall) -> Result<Uninstalled, UninstallError> {
    let end = Instant::now() + what.timeout;
    let options = ConnectOptions::new(what.control_plane)
        .kubeconfig(what.kubeconfig)
        .context(what.context)
        .base_host(what.base_host)
        .overrides(what.overrides)
        .request_timeout(what.request_timeout)
        .request_log(what.request_log);
    let connection = Connection::open(&options).await?;
    let mut done = Uninstalled::default();
    let namespace = match what.leader_election_namespace {
        Some(given) => given,
        None => namespace_of_controllers(&connection, what.control_plane).await,
    };
    // The namespace of the Leases may be another one.
    let key_namespace = namespace_of_controllers(&connection, what.control_plane).await;
    let marker = UninstallMarker { endpoint: connection.own_endpoint(), namespace, id: what.leader_election_id };
    match marker.set().await {
        // Waits until every controller has seen the mark.
        Ok(()) => sleep(QUIET.min(what.timeout / 2)).await,
        Err(why) => {
            done.notes.insert(format!("could not tell running controllers to stop writing: {why}"));
        }
    }
    // The reflectors live as long as this future: a dropped reflector ends its watches.
    let start = |export_name| {
        let options = ReflectorOptions {
            control_plane: what.control_plane,
            export_name,
            watched: watched(what.control_plane),
            allowance: Allowance::DEFAULT,
        };
        Reflector::start(connection.clone(), options).0
    };
    let reflector = start(what.export_name.clone());
    let mut states = reflector.subscribe();
    let of_locks = match what.control_plane {
        ControlPlane::Kcp if has_locks(&connection).await => Some(start(locks::export())),
        _ => None,
    };
    let export_name = what.export_name.to_string();
    let mut quiet_since = None;
    let mut returns: BTreeMap<Removed, usize> = BTreeMap::new();
    let mut marked = Instant::now();
    loop {
        if marked.elapsed() > UNINSTALL_MARK_FRESH / 4 {
            // If this write fails, the mark of the last one still counts.
            let _ = marker.set().await;
            marked = Instant::now();
        }
        let state = latest(&mut states);
        let beside = of_locks.as_ref().map(Reflector::state);
        let bindings = snapshot::bindings(&export_name, &state);
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
                removal.all(state, &snapshot::bindings(LOCK_EXPORT, state)).await;
            }
            removal.at_home(what.control_plane).await;
        }
        if let Some((what, _)) = returns.iter().find(|(_, times)| **times > MAX_RETURNS) {
            return Err(UninstallError::Returns { what: what.clone() });
        }
        let is_quiet = unseen.is_none() && left.is_empty();
        if !is_quiet {
            quiet_since = None;
        } else if quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
            let secret = RegisterKeySecret::new(apply::own_endpoint(&connection), key_namespace);
            registers::delete_all(&apply::own_endpoint(&connection), &secret, end, &mut done).await;
            return guarded.map_or(Ok(done), |why| Err(UninstallError::Guarded { why }));
        }
        if Instant::now() >= end {
            return match unseen {
                Some(why) => Err(UninstallError::Unseen { control_plane: what.control_plane, why: why.to_owned() }),
                None if left.is_empty() => Err(UninstallError::Unseen {
                    control_plane: what.control_plane,
                    why: "there was no time left to check that no controller installs a configuration again".to_owned(),
                }),
                None => Err(UninstallError::Left { left }),
            };
        }
        // Waits for a change, or for the time of the next look.
        let _ = timeout(PAUSE, states.changed()).await;
        sleep(PAUSE / 5).await;
    }
}

/// Returns the namespace in which controllers look for the mark, unless they were told otherwise.
async fn namespace_of_controllers(connection: &Connection, control_plane: ControlPlane) -> String {
    let installed = match control_plane {
        ControlPlane::Kcp => None,
        // A failure is reported later, when the configuration is to be removed.
        ControlPlane::Kubernetes => {
            apply::read(&apply::own_endpoint(connection), RULES_CONFIGURATION).await.ok().flatten()
        }
    };
    let ours = installed.as_ref().filter(|found| webhook_configuration::is_ours(found));
    ours.and_then(webhook_configuration::own_namespace).unwrap_or(NAMESPACE).to_owned()
}

/// Mark that tells controllers to write no more.
struct UninstallMarker {
    endpoint: Endpoint,
    namespace: String,
    id: String,
}

impl UninstallMarker {
    async fn set(&self) -> Result<(), ApiError> {
        let marker = write_permit::uninstall_marker(&self.endpoint, &self.namespace, &self.id);
        let known = marker.read().await?;
        marker.write(known.as_ref(), "uninstall", UNINSTALL_MARK_FRESH).await.map(drop)
    }
}

/// Returns the resources to watch. In plain Kubernetes these are only the configurations of rules: the right to others may
/// be missing, and each of them is read by its name.
fn watched(control_plane: ControlPlane) -> Vec<Watched> {
    let configurations = snapshot::configuration(RULES_CONFIGURATION);
    match control_plane {
        ControlPlane::Kubernetes => vec![configurations],
        ControlPlane::Kcp => vec![
            configurations,
            snapshot::configuration(REFERENCES_CONFIGURATION),
            snapshot::configuration(LOCKS_CONFIGURATION),
            Watched::BINDINGS,
        ],
    }
}

/// Returns true if there is an APIExport of locks. A failed list counts as none.
async fn has_locks(connection: &Connection) -> bool {
    let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
    let Ok(slices) = apply::own_endpoint(connection).list_json(slices).await else { return false };
    let export = |slice: &Value| slice.pointer("/spec/export/name").and_then(Value::as_str) == Some(LOCK_EXPORT);
    slices.items.iter().any(export)
}

/// Work of one look: deletes configurations, and records what is left, with the reason.
struct Removal<'u> {
    connection: &'u Connection,
    done: &'u mut Uninstalled,
    returns: &'u mut BTreeMap<Removed, usize>,
    left: &'u mut BTreeMap<Removed, String>,
    /// Reason why the configuration that guards owners stays, if it does.
    guarded: &'u mut Option<String>,
}

impl Removal<'_> {
    /// Removes the watched configurations.
    async fn all(&mut self, state: &Snapshot, bindings: &Bindings) {
        for resource in state.resources().iter().filter(|found| found.watched.plural == snapshot::CONFIGURATIONS) {
            let Some(configuration) = resource.watched.names else { continue };
            for ((place, _), found) in &resource.objects {
                let what = Removed { configuration, place: display(bindings, place) };
                if !webhook_configuration::is_ours(&found.text.read()) {
                    self.leave(&what);
                    continue;
                }
                let deleted = match apply::endpoint(self.connection, &found.origin, place.as_ref()) {
                    Ok(endpoint) => delete(&endpoint, configuration).await.map_err(|why| why.to_string()),
                    Err(why) => Err(why),
                };
                self.note(what, deleted);
            }
        }
    }

    /// Removes the configurations at the kubeconfig's own endpoint that are not watched. An account without the right
    /// to one of them did not install it.
    async fn at_home(&mut self, control_plane: ControlPlane) {
        let (names, place) = match control_plane {
            ControlPlane::Kubernetes => (NAMES.split_at(1).1, "the cluster"),
            ControlPlane::Kcp => {
                (&[SPEC_ADMISSION_CONFIGURATION, LOCK_KINDS_CONFIGURATION][..], "depguard's own workspace")
            }
        };
        for configuration in names {
            if *configuration == owners::webhook::NAME && self.is_guarding().await {
                continue;
            }
            let what = Removed { configuration, place: place.to_owned() };
            match delete(&apply::own_endpoint(self.connection), configuration).await {
                Ok(DeletionResult::Foreign) => self.leave(&what),
                Ok(DeletionResult::No) => {}
                Err(error) if error.status() == Some(403) => {}
                other => self.note(what, other.map_err(|why| why.to_string())),
            }
        }
    }

    /// Returns true if the configuration that guards owners exists, and must stay.
    async fn is_guarding(&mut self) -> bool {
        let endpoint = apply::own_endpoint(self.connection);
        let may_be_ours = match apply::read(&endpoint, owners::webhook::NAME).await {
            Ok(found) => found.is_some_and(|found| webhook_configuration::is_ours(&found)),
            Err(error) => error.status() != Some(403),
        };
        if may_be_ours {
            *self.guarded = owners::webhook::needed(&endpoint).await;
        }
        self.guarded.is_some()
    }

    fn leave(&mut self, what: &Removed) {
        let Removed { place, .. } = what;
        self.done.notes.insert(format!("the configuration in {place} is not depguard's and was left alone"));
    }

    fn note(&mut self, what: Removed, deleted: Result<DeletionResult, String>) {
        let why = match deleted {
            // The configuration is gone; the reflector will show this.
            Ok(DeletionResult::No | DeletionResult::Foreign) => "the API server still shows it".to_owned(),
            Ok(DeletionResult::Yes) => {
                let times = self.returns.entry(what.clone()).or_default();
                *times = times.saturating_add(1);
                self.done.removed.insert(what.clone());
                "it was deleted, but is not gone yet".to_owned()
            }
            Err(why) => why,
        };
        self.left.insert(what, why);
    }
}

/// Notes the workspaces that depguard can't look into: they may hold a configuration from when it could.
fn note_unseen(bindings: &Bindings, done: &mut Uninstalled) {
    for (cluster, _) in bindings.iter().filter(|(_, binding)| binding.claim(CONFIGURATIONS) == Claim::NotAccepted) {
        let shown = display(bindings, &Some(cluster.clone()));
        done.notes.insert(format!(
            "{shown} does not accept depguard's claim, so depguard could not look for a configuration there: run \
             `kubectl get validatingwebhookconfigurations {RULES_CONFIGURATION}` in it"
        ));
    }
}

fn display(bindings: &Bindings, place: &InstallPlace) -> String {
    let Some(cluster) = place else { return "the cluster".to_owned() };
    match bindings.of(cluster).and_then(|binding| binding.path.as_ref()) {
        Some(path) => format!("workspace {path}"),
        None => format!("the workspace with logical cluster {cluster}"),
    }
}

/// Result of deleting a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeletionResult {
    Yes,
    /// There was no configuration.
    No,
    Foreign,
}

/// Deletes the configuration of this name as it is now, if it is ours.
async fn delete(endpoint: &Endpoint, name: &str) -> Result<DeletionResult, ApiError> {
    match apply::read(endpoint, name).await? {
        Some(existing) if webhook_configuration::is_ours(&existing) => {
            apply::delete(endpoint, &existing).await.map(|()| DeletionResult::Yes)
        }
        Some(_) => Ok(DeletionResult::Foreign),
        None => Ok(DeletionResult::No),
    }
}

fn by_hand(control_plane: ControlPlane) -> &'static str {
    match control_plane {
        ControlPlane::Kcp => "in the workspace of each provider",
        ControlPlane::Kubernetes => "in the cluster",
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
        if self.removed.is_empty() && self.registers == 0 {
            writeln!(f, "there was nothing to remove")?;
        }
        for Removed { configuration, place } in &self.removed {
            writeln!(f, "removed ValidatingWebhookConfiguration {configuration} from {place}")?;
        }
        match self.registers {
            0 => {}
            1 => writeln!(f, "removed 1 ReferenceRegister")?,
            many => writeln!(f, "removed {many} ReferenceRegisters")?,
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
