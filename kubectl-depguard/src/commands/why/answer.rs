//! Answer about a deletion: the objects that block it, and the source of that knowledge.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::decision::Blocker;
use depguard_core::lookup::ReferencedObject;
use depguard_core::model::{GroupResource, Namespace};
use depguard_core::rule::Edge;
use depguard_core::{OverridePolicy, Rule};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::all;
use super::ask::{DryRunAnswer, ask};
use super::own::TargetState;
use super::release::{Release, TargetIdentity};
use super::text;
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::{ReadFailure, Rules};
use crate::cluster::source::Source;
use crate::engine::locks::{LockSummary, Locks};
use crate::engine::offline_server::OfflineServer;
use crate::engine::reference_scan::Coverage;
use crate::engine::simulated_delete::{Deletion, Judgment, Policies, Server};
use crate::io::exit::Failure;
use crate::io::report::CommandReport;
use crate::io::terminal::Terminal;

/// Object to delete.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    group: String,
    version: String,
    pub(super) resource: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    pub(super) name: String,
    #[serde(skip)]
    pub(super) info: KindInfo,
    #[serde(skip)]
    pub(super) object: Arc<Value>,
}

/// Timeout of one request to an API server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answer: blockers, locks, and everything that is unknown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    pub(crate) target: &'a Target,
    /// True if anything blocks the deletion; `null` if that could not be found out.
    pub(crate) blocked: Option<bool>,
    /// Decision in one word, as in the webhook's metrics.
    pub(crate) decision: &'static str,
    #[serde(rename = "toldBy")]
    pub(crate) basis: AnswerSource,
    pub(crate) blockers: Vec<BlockerDetails>,
    /// Locks that protect the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locks: Vec<LockSummary>,
    #[serde(flatten)]
    pub(crate) own: TargetState,
    /// True if the search stopped before it found all blockers.
    pub(crate) more: bool,
    /// Message of the API server beside or instead of blockers, or the reason why it gave no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// Warnings that the user who deletes would get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// Parts that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unread: Vec<String>,
    /// Problems that leave something unknown, with the next step for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<String>,
    /// Missing rights, which would have helped to find out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_rights: Vec<String>,
}

impl CommandReport for Answer<'_> {
    const KIND: &'static str = "WhyReport";
}

/// Source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AnswerSource {
    /// Files.
    Files,
    /// Rules and objects that the caller may read.
    Rules,
    /// API server, by a dry run of the deletion.
    DryRun,
    /// Rules that the caller may read, and the API server for the others.
    RulesAndDryRun,
}

/// Object that blocks the deletion.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockerDetails {
    /// Name as in a refusal: `VirtualMachine/ns/m1`.
    #[serde(skip)]
    pub(crate) shown: String,
    pub(crate) kind: String,
    /// `None` if only the API server named the blocker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    pub(crate) field: String,
    pub(crate) released_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl Target {
    pub(crate) fn new(info: &KindInfo, object: Arc<Value>) -> Self {
        let owned = |pointer| text(&object, pointer).map(str::to_owned);
        Self {
            group: info.gvr.group.as_str().to_owned(),
            version: info.gvr.version.as_str().to_owned(),
            resource: info.gvr.resource.as_str().to_owned(),
            kind: info.kind.clone(),
            namespace: owned("/metadata/namespace"),
            name: owned("/metadata/name").unwrap_or_default(),
            info: info.clone(),
            object,
        }
    }

    /// Returns the target as `vpcs/a`.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }

    fn path(&self) -> String {
        self.info.path(self.namespace.as_deref(), Some(&self.name))
    }

    fn right_to_delete(&self) -> String {
        let place = self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        format!("delete {}{place}", self.info.gvr.group_resource())
    }
}

impl<'a> Answer<'a> {
    pub(crate) async fn find(
        source: &Source,
        target: &'a Target,
        all: bool,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let rules = source.rules().await?;
        let checked = rules.check();
        let namespace = target.namespace.as_deref().and_then(|namespace| Namespace::parse(namespace).ok());
        let locks = Locks::read(source, namespace.as_ref(), terminal).await?;
        if let (Source::Manifests(_), true) = (source, locks.is_empty())
            && let Some(nothing) = Coverage::of_rules(&rules, &checked, source).nothing()
        {
            return Err(nothing);
        }
        let set = rules.set();
        let overrides = OverridePolicy::nobody();
        let policies = Policies { rules: &set, workspaces: &rules.workspaces, overrides: &overrides };
        let deletion = Deletion { gvr: &target.info.gvr, object: &target.object, user: "", groups: &[] };
        let (judgment, basis) = match source {
            Source::Manifests(manifests) => {
                let answers = OfflineServer::from_manifests(manifests);
                (policies.simulate(deletion, Server::Offline(&answers)).await?, AnswerSource::Files)
            }
            Source::ApiServer(live) => {
                let endpoint = live.endpoint().within(PATIENCE);
                (policies.simulate(deletion, Server::ApiServer(&endpoint)).await?, AnswerSource::Rules)
            }
        };
        let mut answer = Self::new(target, &judgment, &rules, basis);
        answer.add_locks(&locks);
        let found = judgment.blockers();
        if found.more && all {
            let every = all::find(source, target, &rules, &checked.usable, terminal).await?;
            (answer.blockers, answer.more) = (every.blockers, every.more);
            answer.unread.extend(every.unread);
        } else {
            for blocker in &found.objects {
                answer.blockers.push(BlockerDetails::find(source, target, &rules, &checked.usable, blocker).await);
            }
            answer.more = found.more;
        }
        match source {
            Source::ApiServer(live) => {
                let is_in_doubt = answer.is_in_doubt();
                if is_in_doubt || answer.blocked == Some(false) {
                    let endpoint = live.endpoint().within(PATIENCE);
                    let dry_run = ask(&endpoint, &target.path(), &target.right_to_delete()).await?;
                    answer.add_dry_run(dry_run, is_in_doubt);
                }
            }
            // Files are the only source: there is no API server to ask.
            Source::Manifests(_) => {
                if answer.blocked == Some(false) && !(answer.unread.is_empty() && answer.locks.is_empty()) {
                    answer.blocked = None;
                }
            }
        }
        Ok(answer)
    }

    /// Adds the locks that protect the target.
    fn add_locks(&mut self, locks: &Locks) {
        self.unread.extend(locks.unread.iter().map(ReadFailure::to_string));
        // A lock never protects an object that is being deleted already.
        if self.own.deletion_timestamp.is_some() {
            return;
        }
        let referent = ReferencedObject::read(&self.target.object);
        let kind = self.target.info.gvr.group_resource();
        self.locks = locks.of(&kind, referent.namespace.as_deref(), &referent.name, &referent.labels);
        if self.locks.iter().any(|lock| lock.in_force) && self.blocked != Some(true) {
            (self.blocked, self.decision) = (Some(true), "locked");
        }
    }

    /// Returns true if a possible blocker could not be read, or a lock is perhaps not in force.
    fn is_in_doubt(&self) -> bool {
        !(self.problems.is_empty() && self.unread.is_empty() && self.locks.iter().all(|lock| lock.in_force))
    }

    fn new(target: &'a Target, judgment: &Judgment, rules: &Rules, basis: AnswerSource) -> Self {
        let own = TargetState::from_object(&target.object);
        let blocked = match (judgment.allowed(), judgment.label()) {
            (true, _) => Some(own.is_held()),
            (false, "referenced") => Some(true),
            (false, _) => None,
        };
        Self {
            target,
            blocked,
            decision: judgment.label(),
            basis,
            blockers: Vec::new(),
            locks: Vec::new(),
            own,
            more: false,
            message: None,
            warnings: judgment.warnings(),
            unread: rules.unread.iter().map(ToString::to_string).collect(),
            problems: judgment.problems(),
            missing_rights: judgment.missing.clone(),
        }
    }

    /// Adds the API server's answer, which is needed if the readable rules, locks and objects leave doubt or name no
    /// blocker.
    fn add_dry_run(&mut self, dry_run: DryRunAnswer, is_in_doubt: bool) {
        let is_known = self.blocked == Some(true);
        if matches!(dry_run, DryRunAnswer::Yes | DryRunAnswer::Blocked { .. }) {
            // The webhook found out what the caller could not.
            self.problems.clear();
        }
        let basis = if is_known || !is_in_doubt { AnswerSource::RulesAndDryRun } else { AnswerSource::DryRun };
        match dry_run {
            DryRunAnswer::Yes if is_known => {
                // The readable rules name a blocker. The server will refuse, too, once they are in force.
            }
            DryRunAnswer::Yes => {
                self.locks.clear();
                if is_in_doubt {
                    self.decision = "allowed";
                }
                (self.blocked, self.basis) = (Some(false), basis);
            }
            DryRunAnswer::Blocked { causes, message } => {
                self.basis = basis;
                (self.blocked, self.decision) = (Some(true), "referenced");
                // A message about many blockers names some of them, and says that there are more.
                self.more |= message.contains(" more (") || message.contains(" and at least ");
                for cause in causes {
                    if !self.blockers.iter().any(|blocker| blocker.shown == cause.message) {
                        self.blockers.push(BlockerDetails::from_refusal(&cause.message, &cause.field));
                    }
                }
                self.message = Some(message);
            }
            DryRunAnswer::Locked(message) | DryRunAnswer::Refused(message) => {
                let decision = if message.contains(super::ask::LOCKED) { "locked" } else { "refused" };
                (self.blocked, self.decision) = (Some(true), if is_known { self.decision } else { decision });
                self.basis = basis;
                self.message = Some(message);
            }
            DryRunAnswer::Unknown { why, missing } => {
                // Without the right to delete, the answer from the readable parts counts, if all parts could be read.
                if !is_known && (is_in_doubt || missing.is_none()) {
                    self.blocked = None;
                }
                self.missing_rights.extend(missing);
                self.message = Some(why);
            }
        }
    }

    /// Builds the failure of a command that could not find out what blocks the deletion.
    pub(crate) fn failure(&self) -> Failure {
        let failure = Failure::new(format!("could not find out what blocks {}", self.target.shown()));
        if self.missing_rights.is_empty() {
            return failure.hint("the lines above say what to do");
        }
        failure.hint(format!("ask for the right to {}", self.missing_rights.join(", or to ")))
    }
}

impl BlockerDetails {
    /// Describes a blocker, and how it lets go, as far as the caller may read its object.
    async fn find(
        source: &Source,
        target: &Target,
        rules: &Rules,
        usable: &[(&Value, Rule)],
        blocker: &Blocker,
    ) -> Self {
        let Some((rule, edge)) = edge_of(usable, blocker, &target.info.gvr.group_resource()) else {
            let rule = Some(rules.shown(&blocker.rule));
            return Self { rule, ..Self::from_refusal(&blocker.to_string(), &blocker.field) };
        };
        let gvr = rule.dependent().gvr.clone();
        let namespaced = source.kind_of(&gvr.group_resource()).await.ok().flatten().and_then(|kind| kind.namespaced);
        let kind = KindInfo::bare(gvr, &blocker.kind, namespaced);
        let namespace = blocker.namespace.as_ref().or(target.namespace.as_ref());
        let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
        // An object that can't be read is explained as far as the rule allows.
        let object = source.object(&kind, namespace.as_ref(), &blocker.name).await.ok().flatten();
        let shown = rules.shown(rule.key());
        Self { rule: Some(shown), ..Self::new(target, rule, edge, blocker, object.as_deref()) }
    }

    /// Describes a blocker that refers by an edge of a rule.
    pub(super) fn new(target: &Target, rule: &Rule, edge: &Edge, blocker: &Blocker, object: Option<&Value>) -> Self {
        let gvr = &rule.dependent().gvr;
        let held =
            TargetIdentity { shown: &target.shown(), name: &target.name, uid: text(&target.object, "/metadata/uid") };
        let namespace = match object {
            Some(object) => text(object, "/metadata/namespace").map(str::to_owned),
            None => blocker.namespace.clone(),
        };
        let blocking = Self {
            shown: blocker.to_string(),
            kind: blocker.kind.clone(),
            group: Some(gvr.group.as_str().to_owned()),
            resource: Some(gvr.resource.as_str().to_owned()),
            namespace,
            name: blocker.name.clone(),
            rule: Some(blocker.rule.to_string()),
            field: blocker.field.clone(),
            released_by: Vec::new(),
            notes: Vec::new(),
        };
        blocking.with_release(Release::new(edge, object, held))
    }

    /// Describes a blocker from its name in a refusal.
    fn from_refusal(shown: &str, field: &str) -> Self {
        let mut parts = shown.splitn(3, '/');
        let (kind, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let (namespace, name) = match (second, third) {
            (Some(namespace), Some(name)) => (Some(namespace.to_owned()), name),
            (Some(name), None) => (None, name),
            (None, _) => (None, ""),
        };
        Self {
            shown: shown.to_owned(),
            kind: kind.to_owned(),
            group: None,
            resource: None,
            namespace,
            name: name.to_owned(),
            rule: None,
            field: field.to_owned(),
            released_by: Vec::new(),
            notes: Vec::new(),
        }
        .with_release(Release::of_field(field))
    }

    fn with_release(mut self, release: Release) -> Self {
        (self.released_by, self.notes) = (release.by, release.notes);
        self
    }
}

/// Returns the rule and the edge by which an object blocks.
fn edge_of<'r>(
    usable: &'r [(&Value, Rule)],
    blocker: &Blocker,
    target: &GroupResource,
) -> Option<(&'r Rule, &'r Edge)> {
    let (_, rule) = usable.iter().find(|(_, rule)| *rule.key() == blocker.rule)?;
    let is_it = |edge: &&Edge| edge.target.gvr.group_resource() == *target && edge.field() == blocker.field;
    Some((rule, rule.edges().iter().find(is_it)?))
}
