//! Proof that the loaded rules are the rules that could apply in one logical cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::Proof;
use super::known_rules::{KnownRules, RuleState};
use super::presence::{Presence, Read, Step};
use crate::model::api;
use crate::model::names::LogicalCluster;
use crate::protocol::admission_review::Review;
use crate::protocol::cause::Cause;
use crate::protocol::paged_list::{PagedList, Progress};
use crate::protocol::problem::Unresolved;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{list_not_found, unanswered};
use crate::scan::extract::{Page, PageError};

/// Maximum number of workspaces that one deletion may depend on: more providers than anybody has bound.
const MAX_PROVIDERS: usize = 256;

/// Proof that the rules that could forbid a deletion are loaded in their current state, although some rules can't be
/// watched.
///
/// A rule applies in a logical cluster only if the rule lies in that same logical cluster, or in one from which the
/// cluster has bound an APIExport: its APIBindings name those. For each of these logical clusters, consistent reads
/// must show one of these facts:
///
/// - the logical cluster exists and has no APIBinding of depguard, so that no rule can lie there; or
/// - the rules there are exactly the loaded ones, each the same object of the same generation.
///
/// If any answer is missing or unexpected, nothing is proved.
#[derive(Debug)]
pub struct RuleCurrency {
    known: Arc<KnownRules>,
    consumer: LogicalCluster,
    workspaces: BTreeMap<LogicalCluster, Workspace>,
    reads: QueryQueue<(LogicalCluster, PendingRead)>,
    failure: Option<Unresolved>,
}

/// A logical cluster whose rules could apply.
#[derive(Debug)]
struct Workspace {
    presence: Presence,
    rules: RuleList,
}

/// A workspace's rules, compared with those that are loaded.
#[derive(Debug)]
enum RuleList {
    /// The rules are not requested yet: the logical cluster may not have bound depguard.
    Unasked,
    Reading {
        listing: Box<PagedList>,
        same: usize,
        other: bool,
    },
    Known,
}

#[derive(Debug, Clone, Copy)]
enum PendingRead {
    Presence(Read),
    Rules,
}

impl RuleCurrency {
    /// Begins a proof for a review. `None`: the review doesn't name the logical cluster of its object.
    pub fn from_review(known: Arc<KnownRules>, review: &Review<'_>) -> Option<Self> {
        Some(Self::new(known, LogicalCluster::parse(review.cluster()?).ok()?))
    }

    fn new(known: Arc<KnownRules>, consumer: LogicalCluster) -> Self {
        let mut currency = Self {
            known,
            consumer: consumer.clone(),
            workspaces: BTreeMap::new(),
            reads: QueryQueue::new(),
            failure: None,
        };
        currency.add(consumer);
        currency
    }

    /// Returns the result: nothing, or the reason why nothing is proved, as a sentence with advice.
    pub fn outcome(self) -> Result<(), Unresolved> {
        if let Some(why) = self.failure {
            return Err(why);
        }
        match self.workspaces.values().find(|workspace| !workspace.is_known()) {
            None => Ok(()),
            Some(Workspace { presence, rules: RuleList::Reading { .. } }) => {
                Err(unanswered().about(format_args!("the list of rules of logical cluster {}", presence.cluster())))
            }
            Some(workspace) => Err(workspace.presence.unanswered()),
        }
    }

    fn is_proved(&self) -> bool {
        self.workspaces.values().all(Workspace::is_known)
    }

    fn add(&mut self, cluster: LogicalCluster) {
        for read in [Read::Bindings, Read::Itself] {
            self.reads.push((cluster.clone(), PendingRead::Presence(read)));
        }
        let workspace = Workspace { presence: Presence::new(cluster.clone()), rules: RuleList::Unasked };
        self.workspaces.insert(cluster, workspace);
    }

    fn answer_presence(&mut self, cluster: &LogicalCluster, read: Read, answer: Answer<'_>) -> Result<(), Unresolved> {
        let is_consumer = *cluster == self.consumer;
        let Some(workspace) = self.workspaces.get_mut(cluster) else { return Ok(()) };
        let (mut providers, mut nameless) = (Vec::new(), false);
        let step = workspace.presence.answer(read, self.known.export(), answer, |binding| {
            if is_consumer && binding.bound().next().is_some() {
                let provider = binding.provider().and_then(|provider| LogicalCluster::parse(provider).ok());
                nameless |= provider.is_none();
                providers.extend(provider);
            }
        })?;
        if nameless {
            let why = format!("an APIBinding of logical cluster {cluster} names no provider yet; retry later");
            return Err(Unresolved::new(Cause::RulesNotCurrent, why));
        }
        // A provider from a page of an expired list is asked as well: that can only cause a refusal.
        for provider in providers {
            if !self.workspaces.contains_key(&provider) {
                self.add(provider);
            }
        }
        if self.workspaces.len() > MAX_PROVIDERS {
            let why = format!(
                "logical cluster {cluster} binds APIs of more than {MAX_PROVIDERS} providers, too many to check for one \
                 deletion; wait until all shards answer"
            );
            return Err(Unresolved::new(Cause::RulesNotCurrent, why));
        }
        if step == Step::Done {
            return self.advance(cluster);
        }
        self.reads.push((cluster.clone(), PendingRead::Presence(read)));
        Ok(())
    }

    fn advance(&mut self, cluster: &LogicalCluster) -> Result<(), Unresolved> {
        let Some(workspace) = self.workspaces.get_mut(cluster) else { return Ok(()) };
        match workspace.presence.binds() {
            None => {}
            Some(false) if self.known.count(cluster) == 0 => workspace.rules = RuleList::Known,
            Some(false) => return Err(changed(cluster)),
            Some(true) => {
                let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
                let listing = Box::new(PagedList::new(path));
                workspace.rules = RuleList::Reading { listing, same: 0, other: false };
                self.reads.push((cluster.clone(), PendingRead::Rules));
            }
        }
        Ok(())
    }

    fn answer_rules(&mut self, cluster: &LogicalCluster, answer: Answer<'_>) -> Result<(), Unresolved> {
        let Some(Workspace { rules, .. }) = self.workspaces.get_mut(cluster) else { return Ok(()) };
        let RuleList::Reading { listing, same, other } = rules else { return Ok(()) };
        let known = &self.known;
        let progress = listing.answer(answer, |body| {
            read_rules(body, |name, state| match state {
                Some(state) if known.holds(cluster, name, &state) => *same += 1,
                _ => *other = true,
            })
        });
        let failed = |why: Unresolved| Err(why.about(format_args!("the list of rules of logical cluster {cluster}")));
        match progress {
            Progress::More => self.reads.push((cluster.clone(), PendingRead::Rules)),
            Progress::Restart => {
                (*same, *other) = (0, false);
                self.reads.push((cluster.clone(), PendingRead::Rules));
            }
            Progress::Complete if *other || *same != known.count(cluster) => return Err(changed(cluster)),
            Progress::Complete => *rules = RuleList::Known,
            Progress::NotFound => return failed(list_not_found()),
            Progress::Failed(why) => return failed(why),
        }
        Ok(())
    }
}

impl Proof for RuleCurrency {
    fn queries(&mut self) -> Vec<Query> {
        let Self { reads, workspaces, known, .. } = self;
        reads.hand_out(|id, (cluster, asked)| {
            let workspace = workspaces.get(cluster)?;
            match (asked, &workspace.rules) {
                (PendingRead::Presence(read), _) => Some(workspace.presence.query(id, *read)),
                (PendingRead::Rules, RuleList::Reading { listing, .. }) => Some(Query {
                    id,
                    cluster: Some(cluster.clone()),
                    export: Some(known.export().clone()),
                    path: listing.next(),
                    accept: Accept::Metadata,
                }),
                (PendingRead::Rules, _) => None,
            }
        })
    }

    fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some((cluster, asked)) = self.reads.take(id) else { return };
        let taken = match asked {
            PendingRead::Presence(read) => self.answer_presence(&cluster, read, answer),
            PendingRead::Rules => self.answer_rules(&cluster, answer),
        };
        if let Err(why) = taken {
            self.failure.get_or_insert(why);
        }
    }

    fn is_settled(&self) -> bool {
        self.failure.is_some() || self.is_proved()
    }
}

impl Workspace {
    fn is_known(&self) -> bool {
        matches!(self.rules, RuleList::Known)
    }
}

fn changed(cluster: &LogicalCluster) -> Unresolved {
    let why = format!("the rules of logical cluster {cluster} differ from the loaded rules; retry later");
    Unresolved::new(Cause::RulesNotCurrent, why)
}

/// Hands the name and the state of each rule of a page to `each`; `None` if the rule has no readable state.
fn read_rules(bytes: &[u8], mut each: impl FnMut(&str, Option<RuleState>)) -> Result<Page, PageError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        metadata: Page,
        #[serde(default, deserialize_with = "present")]
        items: Option<Vec<Item>>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        #[serde(flatten)]
        state: Option<RuleState>,
    }
    /// Reads `null` as an empty list, because Go writes an empty slice as `null`; a missing field remains `None`.
    fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Item>>, D::Error> {
        Option::deserialize(deserializer).map(|items: Option<_>| Some(items.unwrap_or_default()))
    }
    let list: List = serde_json::from_slice(bytes)?;
    for Item { metadata: Metadata { name, state } } in list.items.ok_or(PageError::NoItems)? {
        each(&name, state);
    }
    Ok(list.metadata)
}

#[cfg(test)]
mod tests;
