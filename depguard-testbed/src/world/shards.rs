//! Shards of a kcp. Each logical cluster lies on one, and each shard has an address of its own beside the
//! front-proxy's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::options::Options;
use crate::store::Key;
use crate::world::ROOT;

const LISTED_AFTER: Duration = Duration::from_millis(300);

/// All shards; none if the whole kcp is one shard, which is the API server itself.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    all: Vec<Shard>,
    /// Time between the first binding on a shard and its appearance in a slice.
    listed_after: Duration,
    placement: Mutex<Placement>,
    /// Time since which each slice could list each shard, and true if the slice does list the shard.
    bound: Mutex<HashMap<(Key, usize), (Instant, bool)>>,
}

#[derive(Debug)]
pub(crate) struct Shard {
    name: String,
    /// Host in the shard's URLs.
    host: String,
    pub(crate) address: SocketAddr,
    /// Set if the shard shall listen.
    pub(crate) desired_up: watch::Sender<bool>,
    /// Set if the shard listens.
    pub(crate) listens: watch::Sender<bool>,
    outage: watch::Sender<Option<Outage>>,
}

/// Outage of a shard, at its own address and through the front-proxy alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// The shard's process has ended.
    Killed,
    /// The shard takes connections and never answers.
    Hung,
}

#[derive(Debug, Default)]
struct Placement {
    shards: BTreeMap<String, usize>,
    next: usize,
}

impl Shards {
    /// Opens a port for each shard.
    pub(crate) async fn open(options: &Options) -> std::io::Result<(Self, Vec<TcpListener>)> {
        let (mut all, mut listeners) = (Vec::new(), Vec::new());
        for name in &options.shards {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            let host = options.shard_hosts.get(name).cloned().unwrap_or_else(|| address.ip().to_string());
            let name = name.clone();
            all.push(Shard {
                name,
                host,
                address,
                desired_up: watch::Sender::new(true),
                listens: watch::Sender::new(true),
                outage: watch::Sender::new(None),
            });
            listeners.push(listener);
        }
        let listed_after = options.listed_after.unwrap_or(LISTED_AFTER);
        Ok((Self { all, listed_after, ..Self::default() }, listeners))
    }

    /// Returns the shard whose virtual workspaces the front-proxy shows.
    pub(crate) fn of_front_proxy(&self) -> Option<usize> {
        (!self.all.is_empty()).then_some(0)
    }

    pub(crate) fn get(&self, shard: usize) -> Option<&Shard> {
        self.all.get(shard)
    }

    pub(crate) fn url(&self, shard: usize) -> Option<String> {
        self.all.get(shard).map(|shard| format!("https://{}:{}", shard.host, shard.address.port()))
    }

    // === Placement of logical clusters ===

    /// Puts a new logical cluster on the shard of that name, or else on the next one.
    pub(crate) fn place(&self, cluster: &str, named: Option<&str>) {
        if self.all.is_empty() {
            return;
        }
        let mut placement = lock(&self.placement);
        if placement.shards.contains_key(cluster) {
            return;
        }
        let named = match named {
            _ if cluster == ROOT => Some(0),
            Some(name) => self.all.iter().position(|shard| shard.name == name),
            None => None,
        };
        let shard = named.unwrap_or_else(|| {
            placement.next += 1;
            (placement.next - 1) % self.all.len()
        });
        placement.shards.insert(cluster.to_owned(), shard);
    }

    /// Returns true if the logical cluster lies on the shard. `None` stands for all of kcp.
    pub(crate) fn holds(&self, shard: Option<usize>, cluster: &str) -> bool {
        shard.is_none_or(|shard| lock(&self.placement).shards.get(cluster) == Some(&shard))
    }

    // === Shards that a slice lists ===

    /// Returns the shards that a slice lists: those on which one of the logical clusters has been bound for a while.
    pub(crate) fn listed(&self, slice: &Key, clusters: impl IntoIterator<Item = String>) -> Vec<String> {
        let placement = lock(&self.placement);
        let now_bound: BTreeSet<usize> =
            clusters.into_iter().filter_map(|cluster| placement.shards.get(&cluster).copied()).collect();
        let mut bound = lock(&self.bound);
        bound.retain(|(of, shard), _| of != slice || now_bound.contains(shard));
        let now = Instant::now();
        let for_a_while = |shard: &usize| {
            let (since, listed) = bound.entry((slice.clone(), *shard)).or_insert((now, false));
            *listed |= now.duration_since(*since) >= self.listed_after;
            *listed
        };
        now_bound.into_iter().filter(for_a_while).filter_map(|shard| self.url(shard)).collect()
    }

    /// Waits until a slice may list one more shard.
    pub(crate) async fn next_listed(&self) {
        let bound = lock(&self.bound).values().copied().collect::<Vec<_>>();
        // This time may have passed since the last look.
        let next = bound.into_iter().filter(|(_, listed)| !listed).map(|(since, _)| since + self.listed_after).min();
        match next {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the shard that a request at an address about a logical cluster reaches.
    pub(crate) fn asked(&self, address: Option<usize>, cluster: &str) -> Option<usize> {
        address.or_else(|| lock(&self.placement).shards.get(cluster).copied())
    }

    // === Outages ===

    /// Begins or ends an outage of a shard. Returns `false` if there is no such shard.
    pub(crate) async fn set_outage(&self, name: &str, outage: Option<Outage>) -> bool {
        let Some(shard) = self.all.iter().find(|shard| shard.name == name) else { return false };
        shard.outage.send_replace(outage);
        self.switch(name, outage != Some(Outage::Killed)).await
    }

    /// Returns a receiver of a shard's outage.
    pub(crate) fn outage(&self, shard: Option<usize>) -> Option<watch::Receiver<Option<Outage>>> {
        shard.and_then(|shard| self.all.get(shard)).map(|shard| shard.outage.subscribe())
    }

    /// Opens or closes a shard's address, and waits until that is done. Returns `false` if there is no such shard.
    pub(crate) async fn switch(&self, name: &str, up: bool) -> bool {
        let Some(shard) = self.all.iter().find(|shard| shard.name == name) else { return false };
        shard.desired_up.send_replace(up);
        shard.listens.subscribe().wait_for(|listens| *listens == up).await.is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
