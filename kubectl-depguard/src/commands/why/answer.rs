//! What blocks a deletion, and which way that came to be known.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{Blocker, Edge, GroupResource, Namespace, OverridePolicy, Referent, Rule};
use serde::Serialize;
use serde_json::Value;

use super::all;
use super::ask::{Said, ask};
use super::own::Own;
use super::release::{Held, Release};
use super::text;
use crate::answers::Answers;
use crate::judge::{Deletion, Judgment, Law, Server};
use crate::kinds::KindInfo;
use crate::locks::{LockedBy, Locks};
use crate::outcome::Failure;
use crate::rules::{Rules, Unread};
use crate::scan::Coverage;
use crate::source::Source;
use crate::terminal::Terminal;

/// The object that is to be deleted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    group: String,
    version: String,
    resource: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    #[serde(skip)]
    pub(super) info: KindInfo,
    #[serde(skip)]
    pub(super) object: Arc<Value>,
}

/// How long an API server may take for one request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who blocks it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    pub(crate) target: &'a Target,
    /// Whether anything does; `null`: it could not be told.
    pub(crate) blocked: Option<bool>,
    /// The decision in one word, as the webhook's metrics have it.
    pub(crate) decision: &'static str,
    pub(crate) told_by: ToldBy,
    pub(crate) blockers: Vec<Blocking>,
    /// The locks that keep it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locks: Vec<LockedBy>,
    #[serde(flatten)]
    pub(crate) own: Own,
    /// Whether the search was given up before all were found.
    pub(crate) more: bool,
    /// What the API server said beside or instead of blockers, or why it said nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// What whoever deletes would be warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// What could not be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unread: Vec<String>,
    /// What could not be found out, and what to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<String>,
    /// Rights that would have helped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_rights: Vec<String>,
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToldBy {
    /// The files.
    Files,
    /// The rules and objects that the caller may read.
    Rules,
    /// The API server, to a dry run of the deletion.
    DryRun,
    /// The rules that the caller may read, and the API server for the others.
    RulesAndDryRun,
}

/// One that blocks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blocking {
    /// As a refusal names it: `VirtualMachine/ns/m1`.
    #[serde(skip)]
    pub(crate) shown: String,
    pub(crate) kind: String,
    /// Not known where the API server was asked.
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

    /// `vpcs/a`
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
        let namespace = target.namespace.as_deref().and_then(|namespace| Namespace::parse(namespace).ok());
        let locks = Locks::read(source, namespace.as_ref(), terminal).await?;
        if let (Source::Disk(_), true) = (source, locks.is_empty())
            && let Some(nothing) = Coverage::of_rules(&rules, source).nothing()
        {
            return Err(nothing);
        }
        let set = rules.set();
        let overrides = OverridePolicy::nobody();
        let law = Law { rules: &set, workspaces: &rules.workspaces, overrides: &overrides };
        let deletion = Deletion { gvr: &target.info.gvr, object: &target.object, user: "", groups: &[] };
        let (judgment, told_by) = match source {
            Source::Disk(disk) => {
                let answers = Answers::of(disk);
                (law.judge(deletion, Server::Memory(&answers)).await?, ToldBy::Files)
            }
            Source::Live(live) => {
                let endpoint = live.endpoint().within(PATIENCE);
                (law.judge(deletion, Server::Live(&endpoint)).await?, ToldBy::Rules)
            }
        };
        let mut answer = Self::of(target, &judgment, &rules, told_by);
        answer.lock(&locks);
        let found = judgment.blockers();
        if found.more && all {
            let every = all::find(source, target, &rules, terminal).await?;
            (answer.blockers, answer.more) = (every.blockers, every.more);
            answer.unread.extend(every.unread);
        } else {
            for blocker in &found.who {
                answer.blockers.push(Blocking::find(source, target, &rules, blocker).await);
            }
            answer.more = found.more;
        }
        match source {
            Source::Live(live) => {
                let is_in_doubt = answer.is_in_doubt();
                if is_in_doubt || answer.blocked == Some(false) {
                    let endpoint = live.endpoint().within(PATIENCE);
                    let said = ask(&endpoint, &target.path(), &target.right_to_delete()).await?;
                    answer.hear(said, is_in_doubt);
                }
            }
            // Nobody else can be asked.
            Source::Disk(_) => {
                if answer.blocked == Some(false) && !(answer.unread.is_empty() && answer.locks.is_empty()) {
                    answer.blocked = None;
                }
            }
        }
        Ok(answer)
    }

    /// Takes in the locks.
    fn lock(&mut self, locks: &Locks) {
        self.unread.extend(locks.unread.iter().map(Unread::to_string));
        // What is on its way out is locked by none.
        if self.own.deletion_timestamp.is_some() {
            return;
        }
        let referent = Referent::read(&self.target.object);
        let kind = self.target.info.gvr.group_resource();
        self.locks = locks.of(&kind, referent.namespace.as_deref(), &referent.name, &referent.labels);
        if self.locks.iter().any(|lock| lock.in_force) && self.blocked != Some(true) {
            (self.blocked, self.decision) = (Some(true), "locked");
        }
    }

    /// Whether something that may block it could not be looked at, or is perhaps not in force.
    fn is_in_doubt(&self) -> bool {
        !(self.problems.is_empty() && self.unread.is_empty() && self.locks.iter().all(|lock| lock.in_force))
    }

    fn of(target: &'a Target, judgment: &Judgment, rules: &Rules, told_by: ToldBy) -> Self {
        let own = Own::of(&target.object);
        let blocked = match (judgment.allowed(), judgment.label()) {
            (true, _) => Some(own.is_held()),
            (false, "referenced") => Some(true),
            (false, _) => None,
        };
        Self {
            target,
            blocked,
            decision: judgment.label(),
            told_by,
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

    /// What the API server said, where the rules, locks and objects that could be read don't tell all, or name nothing.
    fn hear(&mut self, said: Said, is_in_doubt: bool) {
        let is_known = self.blocked == Some(true);
        if matches!(said, Said::Yes | Said::Blocked { .. }) {
            // It found out what the caller could not.
            self.problems.clear();
        }
        let besides = if is_known || !is_in_doubt { ToldBy::RulesAndDryRun } else { ToldBy::DryRun };
        match said {
            Said::Yes if is_known => {
                // The rules that can be read say another thing, and so does the server once they are in force.
            }
            Said::Yes => {
                self.locks.clear();
                if is_in_doubt {
                    self.decision = "allowed";
                }
                (self.blocked, self.told_by) = (Some(false), besides);
            }
            Said::Blocked { causes, message } => {
                self.told_by = besides;
                (self.blocked, self.decision) = (Some(true), "referenced");
                // Of many a message names some, and says that there are more.
                self.more |= message.contains(" more (") || message.contains(" and at least ");
                for cause in causes {
                    if !self.blockers.iter().any(|blocker| blocker.shown == cause.message) {
                        self.blockers.push(Blocking::told(&cause.message, &cause.field));
                    }
                }
                self.message = Some(message);
            }
            Said::Locked(message) | Said::Refused(message) => {
                let decision = if message.contains(super::ask::LOCKED) { "locked" } else { "refused" };
                (self.blocked, self.decision) = (Some(true), if is_known { self.decision } else { decision });
                self.told_by = besides;
                self.message = Some(message);
            }
            Said::Untold { why, missing } => {
                // Who may not delete it is told what can be read, if all of that could be.
                if !is_known && (is_in_doubt || missing.is_none()) {
                    self.blocked = None;
                }
                self.missing_rights.extend(missing);
                self.message = Some(why);
            }
        }
    }

    /// Why it could not be told.
    pub(crate) fn untold(&self) -> Failure {
        let failure = Failure::new(format!("could not find out what blocks {}", self.target.shown()));
        if self.missing_rights.is_empty() {
            return failure.hint("see above for what to do");
        }
        failure.hint(format!("ask for the right to {}", self.missing_rights.join(", or to ")))
    }
}

impl Blocking {
    /// With how it lets go, as far as the object may be read.
    async fn find(source: &Source, target: &Target, rules: &Rules, blocker: &Blocker) -> Self {
        let parsed: Vec<Rule> = rules.parsed().flatten().collect();
        let Some((rule, edge)) = edge_of(&parsed, blocker, &target.info.gvr.group_resource()) else {
            let rule = Some(rules.shown(&blocker.rule));
            return Self { rule, ..Self::told(&blocker.to_string(), &blocker.field) };
        };
        let gvr = rule.dependent().gvr.clone();
        let namespaced = source.kind_of(&gvr.group_resource()).await.ok().flatten().and_then(|kind| kind.namespaced);
        let kind = KindInfo::bare(gvr, &blocker.kind, namespaced);
        let namespace = blocker.namespace.as_ref().or(target.namespace.as_ref());
        let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
        // What must not be read is explained as far as the rule tells.
        let object = source.object(&kind, namespace.as_ref(), &blocker.name).await.ok().flatten();
        let shown = rules.shown(rule.key());
        Self { rule: Some(shown), ..Self::of(target, rule, edge, blocker, object.as_deref()) }
    }

    /// By an edge of a rule.
    pub(super) fn of(target: &Target, rule: &Rule, edge: &Edge, blocker: &Blocker, object: Option<&Value>) -> Self {
        let gvr = &rule.dependent().gvr;
        let held = Held { shown: &target.shown(), name: &target.name, uid: text(&target.object, "/metadata/uid") };
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
        blocking.released(Release::of(edge, object, held))
    }

    /// As a refusal names it.
    fn told(shown: &str, field: &str) -> Self {
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
        .released(Release::of_field(field))
    }

    fn released(mut self, release: Release) -> Self {
        (self.released_by, self.notes) = (release.by, release.notes);
        self
    }
}

/// The rule and the edge by which somebody blocks.
fn edge_of<'r>(rules: &'r [Rule], blocker: &Blocker, target: &GroupResource) -> Option<(&'r Rule, &'r Edge)> {
    let rule = rules.iter().find(|rule| *rule.key() == blocker.rule)?;
    let is_it = |edge: &&Edge| edge.target.gvr.group_resource() == *target && edge.field() == blocker.field;
    Some((rule, rule.edges().iter().find(is_it)?))
}
