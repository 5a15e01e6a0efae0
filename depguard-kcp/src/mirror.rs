//! Watched resources, kept as one consistent snapshot: what both of depguard's services decide by.

mod allowance;
mod bookmarks;
mod derived;
mod heard;
mod ledger;
mod objects;
mod shortening;
mod small_pages;
mod state;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::{ExportName, Home};
use tokio::sync::{mpsc, watch as latest};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use self::ledger::{Ledger, Source};
use self::watch::{Report, Watch};
use crate::connection::Connection;
use crate::slices::Ours;

pub(crate) use self::bookmarks::Bookmarks;
pub(crate) use self::small_pages::SmallPages;
pub(crate) use self::watch::said_by;

pub use self::allowance::Allowance;
pub use self::derived::Derived;
pub use self::heard::Watches;
pub use self::objects::Tenant;
pub use self::state::{Failure, MirrorState, Mirrored, MirroredObject, ObjectKey, Readiness, Watched};

/// Changes taken in before the next snapshot is made.
const BATCH: usize = 256;

const SLICES: Watched = Watched {
    group: "apis.kcp.io",
    version: "v1alpha1",
    plural: "apiexportendpointslices",
    kind: "APIExportEndpointSlice",
    required: true,
    names: None,
};

/// What to mirror.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct MirrorOptions {
    /// Where depguard runs. In kcp, resources are watched in all clusters of each endpoint of depguard's export; in a
    /// plain cluster, there.
    pub home: Home,
    /// depguard's APIExport; not used in a plain cluster.
    pub export_name: ExportName,
    /// The resources.
    pub watched: Vec<Watched>,
    /// What each workspace may have of each of them; in a plain cluster the whole cluster.
    pub allowance: Allowance,
}

/// Keeps resources mirrored for as long as it lives: dropping it ends all watches, and the last snapshot says that
/// nothing is loaded.
#[derive(Debug)]
pub struct Mirror {
    allowance: Allowance,
    states: latest::Receiver<Arc<MirrorState>>,
    driver: AbortHandle,
}

impl Mirror {
    /// Begins to watch. The handle ends only with the mirror, or when a watch died of a fault of its own: then
    /// nothing is loaded any more, and the process had better be started anew.
    pub fn start(connection: Connection, options: MirrorOptions) -> (Self, JoinHandle<()>) {
        let MirrorOptions { home, export_name, watched, allowance } = options;
        let mut ledger = match home {
            Home::Kcp => {
                let workspace = connection.home_workspace().map(str::to_owned);
                Ledger::of_slices(watched.clone(), Ours { export: export_name.to_string(), workspace })
            }
            Home::Kubernetes => Ledger::of_cluster(watched.clone(), connection.home().url()),
        };
        let (sender, states) = latest::channel(Arc::new(ledger.state()));
        let (reports, incoming) = mpsc::channel(BATCH);
        let driver = Driver {
            connection,
            home,
            watched,
            allowance,
            ledger,
            published: Published(sender),
            reports,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            started: 0,
        };
        let handle = tokio::spawn(driver.run(incoming));
        (Self { allowance, states, driver: handle.abort_handle() }, handle)
    }

    /// What each workspace may have.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// The newest snapshot, and news of later ones.
    pub fn subscribe(&self) -> latest::Receiver<Arc<MirrorState>> {
        self.states.clone()
    }

    /// When each watch was last heard of.
    pub fn watches(&self) -> Watches {
        self.states.borrow().watches().clone()
    }

    /// The newest snapshot.
    pub fn state(&self) -> Arc<MirrorState> {
        self.states.borrow().clone()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Runs one watch for each source that the ledger asks for. Its tasks end with it.
struct Driver {
    connection: Connection,
    home: Home,
    watched: Vec<Watched>,
    allowance: Allowance,
    ledger: Ledger,
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
            self.settle();
            self.published.set(self.ledger.state());
            tokio::select! {
                _ = incoming.recv_many(&mut batch, BATCH) => {}
                Some(ended) = self.tasks.join_next() => {
                    // A watch only ends when it was told to.
                    if ended.is_err_and(|error| !error.is_cancelled()) {
                        tracing::error!("a watch died, so nothing is watched any more");
                        return;
                    }
                }
            }
            for Report { source, watch, change, heard } in batch.drain(..) {
                if self.running.get(&source).is_some_and(|(running, _)| *running == watch) {
                    self.ledger.change(&source, change, heard.into_std());
                }
            }
        }
    }

    /// Starts and ends watches until those run that the ledger asks for.
    fn settle(&mut self) {
        let wanted = self.ledger.sources();
        let watches = self.ledger.watches();
        self.running.retain(|source, (_, task)| {
            let keep = wanted.contains(source);
            if !keep {
                task.abort();
                watches.end(source);
            }
            keep
        });
        for source in wanted {
            if !self.running.contains_key(&source) {
                self.start(source);
            }
        }
    }

    fn start(&mut self, source: Source) {
        let (endpoint, watched) = match &source {
            Source::Slices => (Ok(self.connection.home()), Some(SLICES)),
            Source::Resource { origin, index } => {
                let endpoint = match self.home {
                    Home::Kcp => self.connection.at(origin).map(|endpoint| endpoint.join("/clusters/*")),
                    Home::Kubernetes => Ok(self.connection.home()),
                };
                (endpoint, self.watched.get(*index).copied())
            }
        };
        let Some(watched) = watched else { return };
        self.started = self.started.saturating_add(1);
        let number = self.started;
        let reports = self.reports.clone();
        let heard = self.ledger.watches().begin(source.clone(), watched);
        let task = match endpoint {
            Ok(endpoint) => {
                let (home, source) = (self.home, source.clone());
                let allowance = if watched.is_of_tenants() { self.allowance } else { Allowance::NONE };
                let watch = Watch { endpoint, watched, home, allowance, source, number, reports, heard };
                self.tasks.spawn(watch.run())
            }
            // It stays so until the slice changes.
            Err(error) => {
                let why = format!("the APIExportEndpointSlice names an endpoint that can't be used: {error}");
                let change = ledger::Change::Failed { why, hidden: false };
                let source = source.clone();
                self.tasks.spawn(async move {
                    let _ = reports.send(Report { source, watch: number, change, heard: heard.last() }).await;
                    std::future::pending::<()>().await;
                })
            }
        };
        self.running.insert(source, (number, task));
    }
}

/// The newest snapshot. However the driver ends, what it leaves behind says that nothing is loaded.
struct Published(latest::Sender<Arc<MirrorState>>);

impl Published {
    /// Tells those who listen only of what is new: a resource that can't be had is tried again for ever.
    fn set(&self, state: MirrorState) {
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
