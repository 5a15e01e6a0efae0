//! Watches for all rules that ask for a count, and the count after each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::api::OnMissing;
use depguard_core::lookup::ReferenceReader;
use depguard_core::rule::{Edge, Reference};
use depguard_core::{ControlPlane, GroupVersionResource, Rule};
use depguard_kcp::{MetadataForm, Snapshot, latest, send_if_new};
use futures::StreamExt;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::count::{CountedEdge, count};
use super::dependents::{Dependents, ReferenceForm};
use super::kind_watch::KindWatch;
use super::space::{PART, Space};
use super::targets::Targets;
use crate::leader::write_permit::WritePermit;
use crate::model::reference_count::{NOT_COUNTED, ReferenceCount, ReferenceCounts, Uncounted};
use crate::rules::written_rule::WrittenRules;
use crate::runtime::round::{Change, Changes, ReconcileContext, Rounds};

/// Maximum of pages of dependents that are read at the same time: each has 2 MiB, or one object of up to 8 MiB.
const MAX_PAGES: usize = 4;

/// All work about dangling references, for as long as it is polled.
pub(crate) struct References {
    context: ReconcileContext,
    counts: watch::Sender<Arc<ReferenceCounts>>,
    written: WrittenRules,
    dependents: BTreeMap<GroupVersionResource, WatchedDependents>,
    targets: BTreeMap<GroupVersionResource, KindWatch<Targets>>,
    space: Space,
    /// Places for pages of dependents that are read at the same time.
    pages: Arc<Semaphore>,
    news: Arc<Notify>,
}

struct WatchedDependents {
    edges: Vec<CountedEdge>,
    watch: KindWatch<Dependents>,
}

impl Changes for References {
    async fn changed(&mut self) -> Change {
        tokio::select! {
            changed = self.context.rules.changed() => changed.into(),
            () = self.news.notified() => Change::Usual,
        }
    }
}

impl Rounds for References {
    type Input = Arc<Snapshot>;

    const SETTLE: Duration = Duration::from_secs(1);

    /// Asks for no count while the rules are not known.
    fn prepare(&mut self, permit: WritePermit) -> Option<Self::Input> {
        let state = latest(&mut self.context.rules);
        if permit != WritePermit::Granted {
            // Another controller counts, or nobody does.
            self.dependents.clear();
            self.targets.clear();
            send_if_new(&self.counts, Arc::default());
            return None;
        }
        state.unseen().is_none().then_some(state)
    }

    async fn round(&mut self, state: Self::Input) -> Option<Instant> {
        let counts = self.count(&state);
        send_if_new(&self.counts, Arc::new(counts));
        None
    }
}

impl References {
    pub(crate) fn new(
        context: ReconcileContext,
        written: WrittenRules,
        counts: watch::Sender<Arc<ReferenceCounts>>,
    ) -> Self {
        let memory = context.memory.part(PART);
        Self {
            context,
            counts,
            written,
            dependents: BTreeMap::new(),
            targets: BTreeMap::new(),
            space: Space::new(memory),
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
            news: Arc::default(),
        }
    }

    /// Watches the kinds that the rules need, and counts.
    fn count(&mut self, state: &Snapshot) -> ReferenceCounts {
        let rules = self.written.read(state);
        let usable = rules.iter().filter_map(|(_, rule)| rule.rule().ok());
        let counted: Vec<_> = usable.flat_map(counted_edges).collect();
        if self.context.control_plane == ControlPlane::Kcp {
            return counted.into_iter().map(|(_, edge)| (edge.rule, not_counted_in_kcp())).collect();
        }
        self.start_and_end_watches(counted);
        let targets: BTreeMap<_, _> = self.targets.iter().map(|(gvr, watch)| (gvr.clone(), watch.lock())).collect();
        let counts = self.dependents.values().map(|WatchedDependents { edges, watch }| {
            let dependents = watch.lock();
            count(edges, &dependents, &targets)
        });
        counts.flatten().collect()
    }

    /// Starts and ends watches until exactly those run that these edges need.
    fn start_and_end_watches(&mut self, counted: Vec<(&Rule, CountedEdge)>) {
        let targets: BTreeSet<_> = counted.iter().map(|(_, edge)| edge.edge.target.gvr.clone()).collect();
        let mut by_dependent: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (rule, edge) in counted {
            by_dependent.entry(edge.dependent.gvr.clone()).or_default().push((rule, edge));
        }
        self.targets.retain(|gvr, _| targets.contains(gvr));
        self.dependents.retain(|gvr, watched| {
            let needed = by_dependent.get(gvr).map(|needed| needed.iter().map(|(_, edge)| edge));
            needed.is_some_and(|needed| needed.eq(&watched.edges))
        });
        let endpoint = self.context.connection.own_endpoint();
        for gvr in targets {
            let (endpoint, space, news) = (endpoint.clone(), &self.space, &self.news);
            self.targets.entry(gvr).or_insert_with_key(|gvr| {
                let kind = gvr.clone();
                KindWatch::start(gvr.clone(), Targets::new(space), space, Arc::clone(news), move || {
                    endpoint.follow(kind.path(None, None), MetadataForm).boxed()
                })
            });
        }
        for (gvr, needed) in by_dependent {
            let (endpoint, space, news) = (endpoint.clone(), &self.space, &self.news);
            self.dependents.entry(gvr).or_insert_with_key(|gvr| {
                let reader = ReferenceReader::new(needed.iter().map(|(rule, edge)| (*rule, &edge.edge)));
                let form = ReferenceForm::new(reader, Arc::clone(&self.pages));
                let path = gvr.path(None, None);
                let watch = KindWatch::start(gvr.clone(), Dependents::new(space), space, Arc::clone(news), move || {
                    endpoint.follow(path.clone(), form.clone()).boxed()
                });
                WatchedDependents { edges: needed.into_iter().map(|(_, edge)| edge).collect(), watch }
            });
        }
    }
}

/// Returns the edges of a rule whose references are counted: those by name that look for their targets.
fn counted_edges(rule: &Rule) -> impl Iterator<Item = (&Rule, CountedEdge)> {
    let is_counted = |edge: &&Edge| {
        edge.on_missing != OnMissing::Ignore && matches!(edge.reference, Reference::Field(_) | Reference::Fixed(_))
    };
    rule.edges().iter().filter(is_counted).map(move |edge| {
        let counted = CountedEdge { rule: rule.key().clone(), dependent: rule.dependent().clone(), edge: edge.clone() };
        (rule, counted)
    })
}

fn not_counted_in_kcp() -> ReferenceCount {
    let message = "depguard does not count references in kcp: the dependents are in the workspaces of the consumers, where \
                   the controller has no rights; run `kubectl depguard dangling` in a consumer's workspace";
    ReferenceCount::Unknown(Uncounted { reason: NOT_COUNTED, message: message.to_owned() })
}
