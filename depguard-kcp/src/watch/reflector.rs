//! Watched resources, kept as one consistent snapshot. Both of depguard's services decide by it.

mod allowance;
mod derived;
mod object_text;
mod objects;
mod shortening;
mod snapshot;
mod staleness;
mod store;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::{ControlPlane, ExportName};
use tokio::sync::{mpsc, watch as latest};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use self::store::{Source, Store};
use self::watch::{Report, Watch};
use crate::http::connection::Connection;
use crate::tenancy::endpoint_slices::EndpointSlices;

pub use self::allowance::Allowance;
pub use self::derived::Derived;
pub use self::object_text::ObjectText;
pub use self::objects::Tenant;
pub use self::snapshot::{Failure, ObjectKey, Readiness, Snapshot, Watched, WatchedObject, WatchedResource};
pub use self::staleness::Watches;

/// Maximum of changes that one snapshot takes in.
const BATCH: usize = 256;

const SLICES: Watched = Watched {
    group: "apis.kcp.io",
    version: "v1alpha1",
    plural: "apiexportendpointslices",
    kind: "APIExportEndpointSlice",
    required: true,
    names: None,
    fields: None,
};

/// Options of a reflector.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct ReflectorOptions {
    /// Control plane of depguard. In kcp, resources are watched in all clusters of each endpoint of depguard's export;
    /// in a plain cluster, in that cluster.
    pub control_plane: ControlPlane,
    /// APIExport of depguard; not used in a plain cluster.
    pub export_name: ExportName,
    /// Resources to watch.
    pub watched: Vec<Watched>,
    /// Limit of each resource for each workspace; in a plain cluster for the whole cluster.
    pub allowance: Allowance,
}

/// Watched resources, kept as one snapshot. Dropping the reflector ends all watches, and its last snapshot says that nothing is loaded.
#[derive(Debug)]
pub struct Reflector {
    allowance: Allowance,
    states: latest::Receiver<Arc<Snapshot>>,
    driver: AbortHandle,
}

impl Reflector {
    /// Begins to watch. The handle ends only with the reflector, or when a watch died of an internal fault. After such a
    /// fault nothing is loaded any more, and the process should be started anew.
    pub fn start(connection: Connection, options: ReflectorOptions) -> (Self, JoinHandle<()>) {
        let ReflectorOptions { control_plane, export_name, watched, allowance } = options;
        let mut store = match control_plane {
            ControlPlane::Kcp => {
                let workspace = connection.own_workspace().map(str::to_owned);
                Store::of_slices(watched.clone(), EndpointSlices { export: export_name.to_string(), workspace })
            }
            ControlPlane::Kubernetes => Store::of_cluster(watched.clone(), connection.own_endpoint().url()),
        };
        let (sender, states) = latest::channel(Arc::new(store.state()));
        let (reports, incoming) = mpsc::channel(BATCH);
        let driver = Driver {
            connection,
            control_plane,
            watched,
            allowance,
            store,
            published: Published(sender),
            reports,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            started: 0,
        };
        let handle = tokio::spawn(driver.run(incoming));
        (Self { allowance, states, driver: handle.abort_handle() }, handle)
    }

    /// Returns the limit for each workspace.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Returns a receiver of the newest snapshot and of later ones.
    pub fn subscribe(&self) -> latest::Receiver<Arc<Snapshot>> {
        self.states.clone()
    }

    /// Returns the watches, with the time of the last contact with each.
    pub fn watches(&self) -> Watches {
        self.states.borrow().watches().clone()
    }

    /// Returns the newest snapshot.
    pub fn state(&self) -> Arc<Snapshot> {
        self.states.borrow().clone()
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Runs one watch for each source that the store needs. Its tasks end with it.
struct Driver {
    connection: Connection,
    control_plane: ControlPlane,
    watched: Vec<Watched>,
    allowance: Allowance,
    store: Store,
    published: Published,
    reports: mpsc::Sender<Report>,
    running: BTreeMap<Source, (u64, AbortHandle)>,
    tasks: JoinSet<()>,
    started: u64,
}

impl Driver {
    async fn run(mut self, mut incoming: mpsc::Receiver<Report>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.start_and_end_watches();
            self.published.set(self.store.state());
            tokio::select! {
                _ = incoming.recv_many(&mut batch, BATCH) => {}
                Some(ended) = self.tasks.join_next() => {
                    // A watch ends only when it is told to.
                    if ended.is_err_and(|error| !error.is_cancelled()) {
                        tracing::error!("a watch died; depguard watches nothing any more");
                        return;
                    }
                }
            }
            for Report { source, watch, change, last_understood } in batch.drain(..) {
                if self.running.get(&source).is_some_and(|(running, _)| *running == watch) {
                    self.store.change(&source, change, last_understood.into_std());
                }
            }
        }
    }

    /// Starts and ends watches until exactly those run that the store needs.
    fn start_and_end_watches(&mut self) {
        let sources = self.store.sources();
        let watches = self.store.watches();
        self.running.retain(|source, (_, task)| {
            let keep = sources.contains(source);
            if !keep {
                task.abort();
                watches.end(source);
            }
            keep
        });
        for source in sources {
            if !self.running.contains_key(&source) {
                self.start(source);
            }
        }
    }

    fn start(&mut self, source: Source) {
        let (endpoint, watched) = match &source {
            Source::Slices => (Ok(self.connection.own_endpoint()), Some(SLICES)),
            Source::Resource { origin, index } => {
                let endpoint = match self.control_plane {
                    ControlPlane::Kcp => self.connection.at(origin).map(|endpoint| endpoint.join("/clusters/*")),
                    ControlPlane::Kubernetes => Ok(self.connection.own_endpoint()),
                };
                (endpoint, self.watched.get(*index).copied())
            }
        };
        let Some(watched) = watched else { return };
        self.started = self.started.saturating_add(1);
        let number = self.started;
        let reports = self.reports.clone();
        let last_understood = self.store.watches().begin(source.clone(), watched);
        let task = match endpoint {
            Ok(endpoint) => {
                let (control_plane, source) = (self.control_plane, source.clone());
                let allowance = if watched.is_of_tenants() { self.allowance } else { Allowance::NONE };
                let watch =
                    Watch { endpoint, watched, control_plane, allowance, source, number, reports, last_understood };
                self.tasks.spawn(watch.run())
            }
            // The failure lasts until the slice changes.
            Err(error) => {
                let why = format!("the APIExportEndpointSlice names an endpoint that can't be used: {error}");
                let change = store::Change::Failed { why, hidden: false };
                let source = source.clone();
                self.tasks.spawn(async move {
                    let _ = reports
                        .send(Report { source, watch: number, change, last_understood: last_understood.last() })
                        .await;
                    std::future::pending::<()>().await;
                })
            }
        };
        self.running.insert(source, (number, task));
    }
}

/// Newest snapshot. However the driver ends, the last snapshot says that nothing is loaded.
struct Published(latest::Sender<Arc<Snapshot>>);

impl Published {
    /// Notifies receivers only of news: a resource that fails is tried again for ever.
    fn set(&self, state: Snapshot) {
        self.0.send_if_modified(|known| {
            let news = !known.is_same(&state);
            if news {
                *known = Arc::new(state);
            }
            news
        });
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let state = self.0.borrow().none_loaded("the watches have ended");
        self.set(state);
    }
}
