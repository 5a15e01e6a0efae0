//! Files of the packs of ready-made rules.

use std::fmt::Write as _;

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::manifests::rbac::{dependents_of, references_of};
use crate::manifests::{File, YamlError};
use crate::packs::RulePack;

/// Maximum width of a comment's line, without its `# `.
const WIDTH: usize = 118;

/// Returns the packs of a control plane, one file a pack, with the default rules or the strict ones.
pub fn rule_files(control_plane: ControlPlane, strict: bool) -> Result<Vec<File>, YamlError> {
    let packs = RulePack::all().iter().filter(|pack| pack.control_plane == control_plane);
    packs.map(|pack| rule_file(if strict { pack.strict() } else { pack })).collect()
}

/// Returns the file of a pack.
pub fn rule_file(pack: &RulePack) -> Result<File, YamlError> {
    File::new(format!("{}.yaml", pack.name), &comment(pack), &pack_objects(pack))
}

/// Returns the objects of a pack: its rules, behind the ClusterRole that lets the webhook list their dependents. In kcp
/// the webhook's rights don't depend on rules. With strict rules the role is the default one, since a default rule that
/// was applied before may stay.
pub fn pack_objects(pack: &RulePack) -> Vec<Value> {
    let mut objects = pack.rules();
    if pack.control_plane == ControlPlane::Kubernetes {
        let rules = pack.default_rules();
        let counted = references_of(&format!("depguard-controller-{}", pack.name), &rules);
        objects.insert(0, dependents_of(&format!("depguard-webhook-{}", pack.name), &rules));
        objects.splice(1..1, counted);
    }
    objects
}

fn comment(pack: &RulePack) -> String {
    let mut sentences = vec![format!("This pack {}.", pack.protects)];
    sentences.extend(pack.notes.iter().cloned());
    match pack.is_strict {
        true if pack.by_default.is_empty() => {}
        true => sentences.push("These are the strict rules.".to_owned()),
        false => sentences.extend(pack.by_default.iter().cloned()),
    }
    if pack.control_plane == ControlPlane::Kubernetes {
        sentences.push(
            "The ClusterRole lets the webhook list the dependents; the webhook never reads the targets.".to_owned(),
        );
    }
    sentences.iter().map(|sentence| wrapped(sentence)).collect::<Vec<_>>().join("\n# ")
}

/// Returns the text in lines of limited width, as the inside of a comment.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0_usize);
    for word in text.split_whitespace() {
        let gap = match width {
            0 => "",
            _ if width.saturating_add(word.len()) < WIDTH => " ",
            _ => "\n# ",
        };
        width = if gap == " " { width.saturating_add(word.len()).saturating_add(1) } else { word.len() };
        // Writing to a string can't fail.
        let _ = write!(lines, "{gap}{word}");
    }
    lines
}
