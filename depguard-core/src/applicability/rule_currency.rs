//! Whether the rules that could apply in one logical cluster are those that are loaded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::known_rules::{KnownRules, RuleState};
use super::presence::{Presence, Read, Step};
use crate::answers::UNANSWERED;
use crate::api;
use crate::extract::{Page, PageError};
use crate::listing::{Listing, Progress};
use crate::names::LogicalCluster;
use crate::query::{Accept, Answer, Query, QueryId};
use crate::review::Review;

/// Maximum of providers that one logical cluster may have bound: more than anybody has.
const MAX_PROVIDERS: usize = 256;

/// Proof that the rules which could forbid a deletion are loaded as they are now, though not all rules can be followed.
///
/// A rule applies in a logical cluster only if it lies in that very logical cluster, or in one from which it has bound
/// an APIExport: its APIBindings name them. Of each of these it is read, by consistent reads:
///
/// - that it is there and has no APIBinding of depguard, so that no rule can lie there; or
/// - which rules lie there: they must be the loaded ones, each the same object of the same generation.
///
/// Where any of that is not answered, or otherwise than expected, nothing is proved.
#[derive(Debug)]
pub struct RuleCurrency {
    known: Arc<KnownRules>,
    consumer: LogicalCluster,
    workspaces: BTreeMap<LogicalCluster, Workspace>,
    open: BTreeMap<QueryId, (LogicalCluster, Asked)>,
    ready: VecDeque<(LogicalCluster, Asked)>,
    next_id: usize,
    failure: Option<String>,
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
    /// Not asked for: it is not known whether it has bound depguard.
    Unasked,
    Reading {
        listing: Box<Listing>,
        same: usize,
        other: bool,
    },
    Known,
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    Presence(Read),
    Rules,
}

impl RuleCurrency {
    /// Begins for a review. `None`: it does not say in which logical cluster its object lies.
    pub fn of(known: Arc<KnownRules>, review: &Review<'_>) -> Option<Self> {
        Some(Self::new(known, LogicalCluster::parse(review.old_object()?.cluster()?).ok()?))
    }

    fn new(known: Arc<KnownRules>, consumer: LogicalCluster) -> Self {
        let mut currency = Self {
            known,
            consumer: consumer.clone(),
            workspaces: BTreeMap::new(),
            open: BTreeMap::new(),
            ready: VecDeque::new(),
            next_id: 0,
            failure: None,
        };
        currency.add(consumer);
        currency
    }

    /// Queries to ask now, each once.
    pub fn queries(&mut self) -> Vec<Query> {
        let mut queries = Vec::new();
        while let Some((cluster, asked)) = self.ready.pop_front() {
            let id = QueryId(self.next_id);
            let Some(workspace) = self.workspaces.get(&cluster) else { continue };
            let query = match (asked, &workspace.rules) {
                (Asked::Presence(read), _) => workspace.presence.query(id, read),
                (Asked::Rules, RuleList::Reading { listing, .. }) => Query {
                    id,
                    cluster: Some(cluster.clone()),
                    export: Some(self.known.export().clone()),
                    path: listing.next(),
                    accept: Accept::Metadata,
                },
                (Asked::Rules, _) => continue,
            };
            self.next_id += 1;
            self.open.insert(id, (cluster, asked));
            queries.push(query);
        }
        queries
    }

    /// Takes the answer to a query.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some((cluster, asked)) = self.open.remove(&id) else { return };
        let taken = match asked {
            Asked::Presence(read) => self.answer_presence(&cluster, read, answer),
            Asked::Rules => self.answer_rules(&cluster, answer),
        };
        if let Err(why) = taken {
            self.failure.get_or_insert(why);
        }
    }

    /// Tells if nothing more can be proved.
    pub fn is_settled(&self) -> bool {
        self.failure.is_some() || self.is_proved()
    }

    /// Nothing, or why it is not proved: a sentence with what to do.
    pub fn outcome(self) -> Result<(), String> {
        if let Some(why) = self.failure {
            return Err(why);
        }
        match self.workspaces.values().find(|workspace| !workspace.is_known()) {
            None => Ok(()),
            Some(Workspace { presence, rules: RuleList::Reading { .. } }) => {
                Err(format!("the list of rules of logical cluster {} {UNANSWERED}", presence.cluster()))
            }
            Some(workspace) => Err(workspace.presence.unanswered()),
        }
    }

    fn is_proved(&self) -> bool {
        self.workspaces.values().all(Workspace::is_known)
    }

    fn add(&mut self, cluster: LogicalCluster) {
        self.ready.extend([Read::Bindings, Read::Itself].map(|read| (cluster.clone(), Asked::Presence(read))));
        let workspace = Workspace { presence: Presence::new(cluster.clone()), rules: RuleList::Unasked };
        self.workspaces.insert(cluster, workspace);
    }

    fn answer_presence(&mut self, cluster: &LogicalCluster, read: Read, answer: Answer<'_>) -> Result<(), String> {
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
            return Err(format!(
                "an APIBinding of logical cluster {cluster} does not say whose kinds it binds; retry later"
            ));
        }
        // One that is named on a page of a list that expired is asked as well: that can only refuse.
        for provider in providers {
            if !self.workspaces.contains_key(&provider) {
                self.add(provider);
            }
        }
        if self.workspaces.len() > MAX_PROVIDERS {
            return Err(format!("logical cluster {cluster} has bound APIs of more than {MAX_PROVIDERS} providers"));
        }
        if step == Step::Done {
            return self.go_on(cluster);
        }
        self.ready.push_back((cluster.clone(), Asked::Presence(read)));
        Ok(())
    }

    fn go_on(&mut self, cluster: &LogicalCluster) -> Result<(), String> {
        let Some(workspace) = self.workspaces.get_mut(cluster) else { return Ok(()) };
        match workspace.presence.binds() {
            None => {}
            Some(false) if self.known.count(cluster) == 0 => workspace.rules = RuleList::Known,
            Some(false) => return Err(changed(cluster)),
            Some(true) => {
                let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
                let listing = Box::new(Listing::new(path));
                workspace.rules = RuleList::Reading { listing, same: 0, other: false };
                self.ready.push_back((cluster.clone(), Asked::Rules));
            }
        }
        Ok(())
    }

    fn answer_rules(&mut self, cluster: &LogicalCluster, answer: Answer<'_>) -> Result<(), String> {
        let Some(Workspace { rules, .. }) = self.workspaces.get_mut(cluster) else { return Ok(()) };
        let RuleList::Reading { listing, same, other } = rules else { return Ok(()) };
        let known = &self.known;
        let progress = listing.answer(answer, |body| {
            read_rules(body, |name, state| match state {
                Some(state) if known.holds(cluster, name, &state) => *same += 1,
                _ => *other = true,
            })
        });
        let failed = |why| Err(format!("the list of rules of logical cluster {cluster} {why}"));
        match progress {
            Progress::More => self.ready.push_back((cluster.clone(), Asked::Rules)),
            Progress::Restart => {
                (*same, *other) = (0, false);
                self.ready.push_back((cluster.clone(), Asked::Rules));
            }
            Progress::Complete if *other || *same != known.count(cluster) => return Err(changed(cluster)),
            Progress::Complete => *rules = RuleList::Known,
            Progress::NotFound => return failed("failed with HTTP 404; retry later".to_owned()),
            Progress::Failed(why) => return failed(why),
        }
        Ok(())
    }
}

impl Workspace {
    fn is_known(&self) -> bool {
        matches!(self.rules, RuleList::Known)
    }
}

fn changed(cluster: &LogicalCluster) -> String {
    format!("the rules of logical cluster {cluster} have changed since they could be followed; retry later")
}

/// Hands the name and the state of each rule of a page to `each`; no state where it does not say one.
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
    /// Tells `null`, which is how Go writes an empty slice, from no items at all.
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
