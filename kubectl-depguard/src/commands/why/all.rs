//! Search for all blockers, if there are more than a refusal names.

use std::collections::BTreeMap;

use depguard_core::Rule;
use depguard_core::api::OnDelete;
use depguard_core::decision::Blocker;
use depguard_core::lookup::{ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_core::rule::Edge;
use serde_json::Value;

use super::blocker::BlockerDetails;
use super::target::Target;
use super::text;
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Result of the search.
#[derive(Debug, Default)]
pub(crate) struct AllBlockers {
    pub(crate) blockers: Vec<BlockerDetails>,
    /// True if there are more blockers than the limit.
    pub(crate) more: bool,
    pub(crate) unread: Vec<String>,
}

/// Limit on the blockers.
const MAX_OBJECTS: usize = 100_000;

/// Checks every dependent of every rule that refuses the deletion, as far as the caller may read them.
pub(crate) async fn find(
    source: &Source,
    target: &Target,
    rules: &Rules,
    usable: &[(&Value, Rule)],
    terminal: &Terminal,
) -> Result<AllBlockers, Failure> {
    let referent = ReferencedObject::read(&target.object);
    let kind = target.info.gvr.group_resource();
    let served = source.kinds().await?.served(&kind);
    let refuses = |rule: &Rule, edge: &Edge| {
        edge.target.gvr.group_resource() == kind && edge.on_delete == OnDelete::Deny && rules.applies(rule, edge)
    };
    let (mut found, mut every) = (BTreeMap::new(), AllBlockers::default());
    for (_, rule) in usable {
        let edges: Vec<_> = rule.edges().iter().filter(|edge| refuses(rule, edge)).collect();
        if edges.is_empty() {
            continue;
        }
        let gvr = rule.dependent().gvr.clone();
        let known = source.kind_of(&gvr.group_resource()).await?.and_then(|kind| kind.namespaced);
        let dependents = KindInfo::bare(gvr, rule.dependent().kind.as_str(), known);
        let own = edges.iter().all(|edge| edge.reference.stays_in_namespace());
        let namespace = referent.namespace.as_ref().filter(|_| own);
        let namespace = namespace.and_then(|namespace| depguard_core::model::Namespace::parse(namespace).ok());
        let reader = ReferenceReader::new(edges.iter().map(|edge| (rule, *edge)));
        let mut failed = None;
        let unread = source
            .objects(&dependents, namespace.as_ref(), terminal, |object| {
                let read = reader.read(&object, |held| {
                    let Some(edge) = edges.get(held.edge) else { return };
                    if matches!(held.means, ReferenceTarget::Unclear { .. })
                        || !held.refers_to(&referent, &kind.group, &served)
                    {
                        return;
                    }
                    let blocker = blocker(target, rule, edge, &object);
                    if found.len() < MAX_OBJECTS {
                        let blocking = || BlockerDetails {
                            rule: Some(rules.shown(rule.key())),
                            ..BlockerDetails::new(target, rule, edge, &blocker, Some(&object))
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
            return Err(Failure::new(format!("could not read one of the {kind}: {why}")).hint("check these objects"));
        }
        every.unread.extend(unread.map(|unread| unread.to_string()));
    }
    every.blockers = found.into_values().collect();
    Ok(every)
}

fn blocker(target: &Target, rule: &Rule, edge: &Edge, object: &Value) -> Blocker {
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
