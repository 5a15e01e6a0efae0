//! Answer about a deletion: the state of the target, and everything that stands in the way.

use std::time::Duration;

use depguard_core::lookup::ReferencedObject;
use depguard_core::{OverridePolicy, Rule};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::all;
use super::ask::{Admission, DryRunAnswer, ask};
use super::blocker::BlockerDetails;
use super::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use super::obstacles::{self, Subject, rights};
use super::own::TargetState;
use super::target::Target;
use crate::cluster::api_server::ApiServer;
use crate::cluster::rules::{CheckedRules, ReadFailure, Rules};
use crate::cluster::source::Source;
use crate::engine::locks::{LockSummary, Locks};
use crate::engine::offline_server::OfflineServer;
use crate::engine::reference_scan::Coverage;
use crate::engine::simulated_delete::{Deletion, Judgment, Policies, Server};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Timeout of one request to an API server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rules and locks, read once for all targets of the command.
pub(crate) struct Protection<'r> {
    pub(crate) source: &'r Source,
    pub(crate) rules: &'r Rules,
    pub(crate) checked: CheckedRules<'r>,
}

/// Answer: what stands in the way, and everything that is unknown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    pub(crate) target: &'a Target,
    pub(crate) state: DeletionState,
    /// Decision in one word, as in the webhook's metrics.
    pub(crate) decision: &'static str,
    pub(crate) source: AnswerSource,
    pub(crate) blockers: Vec<BlockerDetails>,
    /// Locks that protect the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locks: Vec<LockSummary>,
    /// Everything else that stands in the way, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) obstacles: Vec<Obstacle>,
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
    /// Rules that can't find all of their dependents, each with the reason. The API server's webhook can't either.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) flawed_rules: Vec<String>,
    /// Missing rights, which would have helped to find out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_rights: Vec<String>,
    /// True if anything refuses the deletion; `None` if that is unknown.
    #[serde(skip)]
    refused: Option<bool>,
    /// True if rules and locks that could not be read may refuse the deletion.
    #[serde(skip)]
    is_protection_unread: bool,
    /// True if something that could not be read may hold the object after its deletion.
    #[serde(skip)]
    is_hold_unknown: bool,
}

/// State of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeletionState {
    /// Nothing stands in the way.
    Free,
    /// The API server refuses the deletion.
    Refused,
    /// The deletion was accepted, or would be, and the object stays.
    Hanging,
    /// Nothing stands in the way, but others refer to what goes with the object.
    Breaking,
    /// Too much could not be read.
    Unknown,
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

impl Protection<'_> {
    /// Simulates the deletion by the rules.
    async fn judge(&self, target: &Target) -> Result<(Judgment, AnswerSource), Failure> {
        let (set, overrides) = (self.rules.set(), OverridePolicy::nobody());
        let policies = Policies { rules: &set, workspaces: &self.rules.workspaces, overrides: &overrides };
        let deletion = Deletion { gvr: &target.info.gvr, object: &target.object, user: "", groups: &[] };
        Ok(match self.source {
            Source::Manifests(manifests) => {
                let answers = OfflineServer::from_manifests(manifests)?;
                (policies.simulate(deletion, Server::Offline(&answers)).await?, AnswerSource::Files)
            }
            Source::ApiServer(live) => {
                let endpoint = live.endpoint().within(PATIENCE);
                (policies.simulate(deletion, Server::ApiServer(&endpoint)).await?, AnswerSource::Rules)
            }
        })
    }

    fn usable(&self) -> &[(&Value, Rule)] {
        &self.checked.usable
    }
}

impl<'a> Answer<'a> {
    /// Finds everything that stands in the way of a deletion. `all`: name all blockers.
    pub(crate) async fn find(
        protection: &Protection<'_>,
        target: &'a Target,
        locks: &Locks,
        all: bool,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let Protection { source, rules, checked } = protection;
        let found = obstacles::find(Subject { source, rules, target, terminal }).await?;
        let is_held = TargetState::from_object(&target.object).is_held() || found.any(Effect::Holds);
        if !source.is_live()
            && locks.is_empty()
            && !is_held
            && let Some(nothing) = Coverage::of_rules(rules, checked, source).nothing()
        {
            return Err(nothing);
        }
        let (judgment, told_by) = protection.judge(target).await?;
        let mut answer = Self::new(target, &judgment, rules, told_by);
        answer.add_locks(locks);
        answer.add_blockers(protection, &judgment, all, terminal).await?;
        answer.add_obstacles(found);
        match source {
            Source::ApiServer(live) if !target.is_terminating() => answer.ask_api_server(live).await?,
            Source::ApiServer(_) => {}
            // Files are the only source: there is no API server to ask.
            Source::Manifests(_) if answer.refused == Some(false) && answer.is_in_doubt() => answer.refused = None,
            Source::Manifests(_) => {}
        }
        answer.state = answer.conclude();
        Ok(answer)
    }

    fn new(target: &'a Target, judgment: &Judgment, rules: &Rules, source: AnswerSource) -> Self {
        let refused = match (judgment.allowed(), judgment.label()) {
            (true, _) => Some(false),
            (false, "referenced") => Some(true),
            (false, _) => None,
        };
        let kind = target.info.gvr.group_resource();
        let concerns = |unread: &&ReadFailure| unread.may_refer_to(&kind);
        let unread: Vec<_> = rules.unread.iter().filter(concerns).collect();
        Self {
            target,
            state: DeletionState::Unknown,
            decision: judgment.label(),
            source,
            blockers: Vec::new(),
            locks: Vec::new(),
            obstacles: Vec::new(),
            own: TargetState::from_object(&target.object),
            more: false,
            message: None,
            warnings: judgment.warnings(),
            unread: unread.iter().map(ToString::to_string).collect(),
            problems: judgment.problems(),
            missing_rights: judgment.missing.clone(),
            refused,
            is_protection_unread: !unread.is_empty(),
            flawed_rules: rules.flawed.iter().filter(concerns).map(ToString::to_string).collect(),
            is_hold_unknown: false,
        }
    }

    /// Adds the locks that protect the target.
    fn add_locks(&mut self, locks: &Locks) {
        self.is_protection_unread |= !locks.unread.is_empty();
        self.unread.extend(locks.unread.iter().map(ReadFailure::to_string));
        // A lock never protects an object that is being deleted already.
        if self.target.is_terminating() {
            return;
        }
        let referent = ReferencedObject::read(&self.target.object);
        let kind = self.target.info.gvr.group_resource();
        self.locks = locks.of(&kind, referent.namespace.as_deref(), &referent.name, &referent.labels);
        if self.locks.iter().any(|lock| lock.in_force) && self.refused != Some(true) {
            (self.refused, self.decision) = (Some(true), "locked");
        }
    }

    async fn add_blockers(
        &mut self,
        protection: &Protection<'_>,
        judgment: &Judgment,
        all: bool,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        let (source, rules, target) = (protection.source, protection.rules, self.target);
        let found = judgment.blockers();
        if found.more && all {
            let every = all::find(source, target, rules, protection.usable(), terminal).await?;
            (self.blockers, self.more) = (every.blockers, every.more);
            self.is_protection_unread |= !every.unread.is_empty();
            self.unread.extend(every.unread);
            return Ok(());
        }
        for blocker in &found.objects {
            self.blockers.push(BlockerDetails::find(source, target, rules, protection.usable(), blocker).await);
        }
        self.more = found.more;
        Ok(())
    }

    fn add_obstacles(&mut self, found: Obstacles) {
        self.is_hold_unknown = !found.unread_holds.is_empty();
        self.unread.extend(found.unread_refusals.into_iter().chain(found.unread_holds));
        self.unread.sort();
        self.unread.dedup();
        self.obstacles = found.list;
    }

    /// Returns true if a possible blocker could not be read, or a lock is perhaps not in force.
    fn is_in_doubt(&self) -> bool {
        self.is_protection_unread || !self.problems.is_empty() || self.locks.iter().any(|lock| !lock.in_force)
    }

    /// Asks the API server if the caller may delete the target, and if it would: by a dry run.
    async fn ask_api_server(&mut self, live: &ApiServer) -> Result<(), Failure> {
        let endpoint = live.endpoint().within(PATIENCE);
        let right = self.target.right_to_delete();
        let may_delete = rights::may_delete(&endpoint, self.target).await;
        if may_delete == Some(false) {
            self.refuse(rights::missing(&right), "not-permitted");
            self.missing_rights.push(right);
            return Ok(());
        }
        let answer = ask(&endpoint, self.target, &right, may_delete).await?;
        let is_in_doubt = self.is_in_doubt();
        self.add_dry_run(answer, is_in_doubt);
        Ok(())
    }

    /// Adds something that refuses the deletion. If rules or locks are in doubt, they may refuse it, too.
    fn refuse(&mut self, obstacle: Obstacle, decision: &'static str) {
        // The finding about the same webhook says the same, and less.
        self.obstacles.retain(|other| obstacle.name.is_none() || other.name != obstacle.name);
        self.obstacles.insert(0, obstacle);
        if self.refused == Some(false) && !self.is_in_doubt() {
            (self.refused, self.decision) = (Some(true), decision);
        } else if self.refused == Some(false) {
            self.refused = None;
        }
    }

    /// Adds the API server's answer, and compares it with what was found.
    fn add_dry_run(&mut self, dry_run: DryRunAnswer, is_in_doubt: bool) {
        let is_known = self.refused == Some(true);
        if matches!(dry_run, DryRunAnswer::Yes | DryRunAnswer::Blocked { .. }) {
            // The webhook found out what the caller could not.
            self.problems.clear();
        }
        let told_by = if is_known || !is_in_doubt { AnswerSource::RulesAndDryRun } else { AnswerSource::DryRun };
        match dry_run {
            DryRunAnswer::Yes if is_known => {
                self.drop_reviewers();
                self.warnings.push(
                    "a dry run says that the API server would delete it for you all the same. Either what refuses it \
                     is not enforced (`kubectl depguard status` says so), or you are exempt"
                        .to_owned(),
                );
            }
            DryRunAnswer::Yes => {
                self.locks.clear();
                self.drop_reviewers();
                if is_in_doubt {
                    self.decision = "allowed";
                }
                (self.refused, self.source) = (Some(false), told_by);
            }
            DryRunAnswer::Blocked { causes, message } => {
                self.source = told_by;
                // A message about many blockers names some of them, and says that there are more.
                self.more |= message.contains(" more (") || message.contains(" and at least ");
                for cause in causes {
                    // The rules that the caller may read say more about a blocker than the refusal.
                    let is_new = !self.blockers.iter().any(|blocker| blocker.shown == cause.message);
                    if is_new && (is_in_doubt || self.blockers.is_empty()) {
                        self.blockers.push(BlockerDetails::from_refusal(&cause.message, &cause.field));
                    }
                }
                (self.refused, self.decision) = (Some(true), "referenced");
                self.message = Some(message);
            }
            DryRunAnswer::Locked(message) => {
                self.decision = if is_known { self.decision } else { "locked" };
                (self.refused, self.source, self.message) = (Some(true), told_by, Some(message));
            }
            DryRunAnswer::Refused { by, message } => {
                let obstacle = by.obstacle(&message);
                self.obstacles.retain(|other| obstacle.name.is_none() || other.name != obstacle.name);
                self.obstacles.insert(0, obstacle);
                self.decision = if is_known { self.decision } else { "refused" };
                (self.refused, self.source, self.message) = (Some(true), told_by, Some(message));
            }
            DryRunAnswer::Unknown { why, missing } => {
                // Without the right to delete, the answer from the readable parts counts, if all parts could be read.
                if !is_known && (is_in_doubt || missing.is_none()) {
                    self.refused = None;
                }
                self.missing_rights.extend(missing);
                self.message = Some(why);
            }
        }
    }

    /// Removes the webhooks and policies that may refuse: the dry run passed them.
    fn drop_reviewers(&mut self) {
        self.obstacles.retain(|obstacle| obstacle.effect != Effect::MayRefuse);
    }

    fn conclude(&self) -> DeletionState {
        let is_held = self.own.is_held() || self.has(Effect::Holds);
        match self.refused {
            _ if self.target.is_terminating() && is_held => DeletionState::Hanging,
            Some(true) if !self.target.is_terminating() => DeletionState::Refused,
            _ if is_held => DeletionState::Hanging,
            Some(false) if self.has(Effect::Breaks) => DeletionState::Breaking,
            // Without a dry run nobody knows whether a webhook or policy refuses, and a dry run says nothing of finalizers.
            Some(false)
                if self.flawed_rules.is_empty()
                    && !self.is_hold_unknown
                    && !self.has(Effect::MayRefuse)
                    && !self.has(Effect::MayHold) =>
            {
                DeletionState::Free
            }
            _ => DeletionState::Unknown,
        }
    }

    fn has(&self, effect: Effect) -> bool {
        self.obstacles.iter().any(|obstacle| obstacle.effect == effect)
    }

    /// Returns what refuses the deletion, besides rules and locks.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Obstacle> {
        self.obstacles.iter().filter(|obstacle| obstacle.effect == Effect::Refuses)
    }
}

impl Admission {
    /// Builds the obstacle of a refusal.
    fn obstacle(&self, message: &str) -> Obstacle {
        let (says, next_step) = match self {
            Self::Webhook(name) => (
                format!("webhook {name} refuses the deletion: {message}"),
                "do what the message says, or ask the owner of the webhook".to_owned(),
            ),
            Self::Policy(name) => (
                format!("ValidatingAdmissionPolicy {name} refuses the deletion: {message}"),
                "do what the message says, or ask the owner of the policy".to_owned(),
            ),
            Self::Unreachable(name) => (
                format!("the API server can't call webhook {name}, and refuses the deletion for that: {message}"),
                "bring the webhook back, or delete its configuration if its product is gone: `kubectl get \
                 validatingwebhookconfigurations,mutatingwebhookconfigurations`"
                    .to_owned(),
            ),
            Self::ApiServer => {
                (format!("the API server refuses the deletion: {message}"), "do what the message says".to_owned())
            }
        };
        let obstacle = Obstacle::new(ObstacleSource::Admission, Effect::Refuses, says, next_step);
        Obstacle { name: self.name().map(str::to_owned), ..obstacle }
    }
}
