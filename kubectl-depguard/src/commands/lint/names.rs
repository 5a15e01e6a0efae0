//! Check for rules that have the name of a rule about other dependents: whoever applies both keeps only one of them.

use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use serde_json::Value;

use super::code::Code;
use super::finding::Report;
use super::subject::Subject;
use crate::cluster::kinds::resource_name;

/// Reports the rules that have the name of a rule about other dependents: of `replaced`, which are on the API server, or of a
/// pack.
pub(super) fn check(control_plane: ControlPlane, rules: &[Subject], replaced: &[Subject], report: &mut Report) {
    let packs = RulePack::all().iter().filter(|pack| pack.control_plane == control_plane);
    let packs: Vec<_> = packs.flat_map(|pack| pack.rules().into_iter().map(move |rule| (pack.name, rule))).collect();
    for rule in rules {
        let Some(own) = dependent(&rule.value) else { continue };
        let other = |value: &Value| dependent(value).filter(|other| name(value) == rule.name() && *other != own);
        let stored = replaced.iter().find_map(|stored| other(&stored.value));
        let of_pack = || packs.iter().find_map(|(pack, value)| Some((pack, other(value)?)));
        let (shown, rename) = (rule.name(), format!("rename it, for example to `{own}`"));
        let message = match stored {
            Some(other) => {
                format!("the rule {shown} on the API server is about {other}, and this one replaces it: {rename}")
            }
            None => match of_pack() {
                Some((pack, other)) => format!(
                    "the pack {pack} has a rule {shown}, too, which is about {other}; the one that is applied last replaces \
                     the other: {rename}"
                ),
                None => continue,
            },
        };
        report.push(Code::NameOfAnother, rule, "metadata.name", message);
    }
}

/// Returns the kind of a rule's dependents: `virtualmachines.compute.example.com`.
fn dependent(rule: &Value) -> Option<String> {
    let text = |field: &str| rule.pointer(&format!("/spec/dependent/{field}")).and_then(Value::as_str);
    Some(resource_name(text("resource")?, text("group")?))
}

fn name(rule: &Value) -> &str {
    rule.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
