//! All blockers, where they are more than a refusal names.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::{Blocker, Edge, Means, ReferenceReader, Referent, Rule};

use super::answer::{Blocking, Target};
use super::text;
use crate::kinds::KindInfo;
use crate::outcome::Failure;
use crate::rules::Rules;
use crate::source::Source;
use crate::terminal::Terminal;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Every {
    pub(crate) blockers: Vec<Blocking>,
    /// Whether there are more than are kept.
    pub(crate) more: bool,
    pub(crate) unread: Vec<String>,
}

/// The most that are kept.
const MOST: usize = 100_000;

/// Looks at every dependent of every rule that refuses the deletion, as far as they may be read.
pub(crate) async fn find(
    source: &Source,
    target: &Target,
    rules: &Rules,
    terminal: &Terminal,
) -> Result<Every, Failure> {
    let parsed: Vec<Rule> = rules.parsed().flatten().collect();
    let referent = Referent::read(&target.object);
    let kind = target.info.gvr.group_resource();
    let refuses = |rule: &Rule, edge: &Edge| {
        edge.target.gvr.group_resource() == kind && edge.on_delete == OnDelete::Deny && rules.bears(rule, edge)
    };
    let (mut found, mut every) = (BTreeMap::new(), Every::default());
    for rule in &parsed {
        let edges: Vec<_> = rule.edges().iter().filter(|edge| refuses(rule, edge)).collect();
        if edges.is_empty() {
            continue;
        }
        let gvr = rule.dependent().gvr.clone();
        let known = source.kind_of(&gvr.group_resource()).await?.and_then(|kind| kind.namespaced);
        let dependents = KindInfo::bare(gvr, rule.dependent().kind.as_str(), known);
        let own = edges.iter().all(|edge| edge.reference.stays_in_namespace());
        let namespace = referent.namespace.as_ref().filter(|_| own);
        let namespace = namespace.and_then(|namespace| depguard_core::Namespace::parse(namespace).ok());
        let reader = ReferenceReader::new(edges.iter().map(|edge| (rule, *edge)));
        let mut failed = None;
        let unread = source
            .objects(&dependents, namespace.as_ref(), terminal, |object| {
                let read = reader.read(&object, |held| {
                    let Some(edge) = edges.get(held.edge) else { return };
                    if matches!(held.means, Means::Unclear { .. }) || !held.refers_to(&referent) {
                        return;
                    }
                    let blocker = blocker(target, rule, edge, &object);
                    if found.len() < MOST {
                        let blocking = || Blocking {
                            rule: Some(rules.shown(rule.key())),
                            ..Blocking::of(target, rule, edge, &blocker, Some(&object))
                        };
                        found.entry(blocker.to_string()).or_insert_with(blocking);
                    } else {
                        every.more = true;
                    }
                });
                failed = failed.take().or(read.err());
            })
            .await?;
        if let Some(why) = failed {
            let kind = dependents.gvr.group_resource();
            return Err(Failure::new(format!("one of the {kind} can't be read: {why}")).hint("look at them"));
        }
        every.unread.extend(unread.map(|unread| unread.to_string()));
    }
    every.blockers = found.into_values().collect();
    Ok(every)
}

fn blocker(target: &Target, rule: &Rule, edge: &Edge, object: &serde_json::Value) -> Blocker {
    let owned = |pointer| text(object, pointer).map(str::to_owned);
    let namespace = owned("/metadata/namespace");
    Blocker {
        kind: rule.dependent().kind.as_str().to_owned(),
        namespace: namespace.filter(|namespace| text(&target.object, "/metadata/namespace") != Some(namespace)),
        name: owned("/metadata/name").unwrap_or_default(),
        field: edge.field(),
        rule: rule.key().clone(),
    }
}
