//! References that stored rules refuse more for than the packs' rules that take their place.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::rule::Edge;
use depguard_core::{ControlPlane, Rule};
use serde_json::Value;

use super::former::{FormerNames, with_metadata};
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
    former: &FormerNames,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let endpoint = live.endpoint();
    let replaced = former.stored().await?;
    for rule in items.iter().map(|item| &item.object).filter(|object| text(object, "/kind") == "DependencyRule") {
        let of_former = replaced.iter().filter(|(_, name)| *name == text(rule, "/metadata/name"));
        let mut stored: Vec<_> = of_former.map(|(stored, _)| stored.clone()).collect();
        match endpoint.get_json(&path_of(rule)?).await {
            Ok(found) => stored.push(found),
            Err(why) if why.is_not_found() => {}
            Err(why) => return Err(Failure::new(format!("{}: {why}", shown(rule)))),
        }
        for stored in stored {
            for line in lines(live.control_plane(), &stored, rule) {
                terminal.note(&format!("{} {line}", shown(rule)))?;
            }
        }
    }
    Ok(())
}

/// Returns a line for each kind of target, and for each way in which its references count for less.
fn lines(control_plane: ControlPlane, stored: &Value, new: &Value) -> Vec<String> {
    let metadata = stored.get("metadata").cloned().unwrap_or_default();
    let new = Rule::parse(control_plane, &with_metadata(new.clone(), metadata));
    // A stored rule that can't be parsed has no references.
    let (Ok(stored), Ok(new)) = (Rule::parse(control_plane, stored), new) else { return Vec::new() };
    let mut fields: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for edge in stored.edges() {
        if let Some(how) = how_weakened(&stored, edge, &new) {
            fields.entry((how, edge.target.gvr.resource.to_string())).or_default().push(edge.field());
        }
    }
    fields.into_iter().map(|((how, target), fields)| format!("{how} {target} in {}", fields.join(", "))).collect()
}

/// Returns the words for what the new rule lets go; `None` if it refuses as much as the stored one.
fn how_weakened(stored: &Rule, edge: &Edge, new: &Rule) -> Option<&'static str> {
    let is_same_kind = stored.dependent().gvr.group_resource() == new.dependent().gvr.group_resource();
    let target = edge.target.gvr.group_resource();
    let alike = || new.edges().iter().filter(|it| is_same_kind && it.target.gvr.group_resource() == target);
    let as_before = |edge: &Edge| alike().any(|it| new.covers(it, stored, edge));
    if edge.on_delete != OnDelete::Deny || as_before(edge) {
        return None;
    }
    let mut warned = edge.clone();
    warned.on_delete = OnDelete::Warn;
    Some(if as_before(&warned) {
        "only warns, where it refused, about deletions of"
    } else if alike().any(|it| it.reference == edge.reference) {
        "refuses in fewer cases than before deletions of"
    } else {
        "refuses no more deletions of"
    })
}
