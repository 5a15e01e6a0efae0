//! References that stored rules refuse more for than the packs' rules that take their place.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::rule::Edge;
use depguard_core::{ControlPlane, Rule};
use serde_json::Value;

use super::former::{FormerRules, with_metadata};
use crate::cluster::api_server::ApiServer;
use crate::cluster::resource_path::{shown, text};
use crate::commands::install::objects::Item;
use crate::commands::install::path_of;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Tells which references of stored rules count for less once the objects are applied.
pub(super) async fn tell(
    live: &ApiServer,
    items: &[Item],
    former: &FormerRules,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let endpoint = live.endpoint();
    let replaced = former.stored().await?;
    let rules: Vec<_> =
        items.iter().map(|item| &item.object).filter(|it| text(it, "/kind") == "DependencyRule").collect();
    let name_of = |rule| Some(text(rule, "/metadata/name"));
    let mut stored: Vec<_> = Vec::new();
    for (former, name) in replaced {
        let rule = rules.iter().find(|rule| name_of(rule) == name);
        stored.push((shown(rule.copied().unwrap_or(&former)), former));
    }
    for rule in &rules {
        match endpoint.get_json(&path_of(rule)?).await {
            Ok(found) => stored.push((shown(rule), found)),
            Err(why) if why.is_not_found() => {}
            Err(why) => return Err(Failure::new(format!("{}: {why}", shown(rule)))),
        }
    }
    for (rule, stored) in stored {
        for line in lines(live.control_plane(), &stored, &rules) {
            terminal.note(&format!("{rule} {line}"))?;
        }
    }
    Ok(())
}

/// Returns a line for each kind of target, and for each way in which its references count for less.
fn lines(control_plane: ControlPlane, stored: &Value, new: &[&Value]) -> Vec<String> {
    let metadata = stored.get("metadata").cloned().unwrap_or_default();
    let parse = |rule: &&Value| Rule::parse(control_plane, &with_metadata((*rule).clone(), metadata.clone())).ok();
    let new: Vec<_> = new.iter().filter_map(parse).collect();
    // A stored rule that can't be parsed has no references.
    let Ok(stored) = Rule::parse(control_plane, stored) else { return Vec::new() };
    let mut fields: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for edge in stored.edges() {
        if let Some(how) = how_weakened(&stored, edge, &new) {
            fields.entry((how, edge.target.gvr.resource.to_string())).or_default().push(edge.field());
        }
    }
    fields.into_iter().map(|((how, target), fields)| format!("{how} {target} in {}", fields.join(", "))).collect()
}

/// Returns the words for what the new rules let go; `None` if they refuse as much as the stored one.
fn how_weakened(stored: &Rule, edge: &Edge, new: &[Rule]) -> Option<&'static str> {
    let (dependent, target) = (stored.dependent().gvr.group_resource(), edge.target.gvr.group_resource());
    let new = || new.iter().filter(|rule| rule.dependent().gvr.group_resource() == dependent);
    let edges = || new().flat_map(|rule| rule.edges().iter().map(move |edge| (rule, edge)));
    let alike = || edges().filter(|(_, edge)| edge.target.gvr.group_resource() == target);
    let as_before = |weaker: &Edge| alike().any(|(rule, edge)| rule.covers(edge, stored, weaker));
    if edge.on_delete != OnDelete::Deny || as_before(edge) {
        return None;
    }
    let mut warned = edge.clone();
    warned.on_delete = OnDelete::Warn;
    Some(if as_before(&warned) {
        "only warns, where it refused, about deletions of"
    } else if alike().any(|(_, it)| it.reference == edge.reference) {
        "refuses in fewer cases than before deletions of"
    } else {
        "no longer refuses deletions of"
    })
}
