//! Proposals as YAML for review: rules, with the reasons as comments.

use super::propose::{Proposal, Reason};
use crate::io::exit::Failure;
use crate::io::output;

/// Writes one document for each rule, behind its ClusterRole if it has one. References without a dependency become comments.
pub(super) fn yaml(proposals: &[Proposal]) -> Result<String, Failure> {
    let mut text = String::new();
    for proposal in proposals {
        if let Some(role) = &proposal.cluster_role {
            text.push_str(&format!("---\n{}", output::yaml(role)?));
        }
        text.push_str("---\n");
        if proposal.references.is_empty() {
            text.push_str(&format!("# {}: no rule, because no reference could be resolved.\n", proposal.dependent));
        } else {
            let mut rule = proposal.rule.clone();
            let dependencies = std::mem::take(&mut rule.spec.dependencies);
            let head = output::yaml(&rule)?;
            text.extend(head.lines().filter(|line| line.trim() != "dependencies: []").map(|line| format!("{line}\n")));
            text.push_str("  dependencies:\n");
            for (dependency, reason) in dependencies.iter().zip(&proposal.references) {
                text.push_str(&comment("  ", reason));
                for (at, line) in output::yaml(dependency)?.lines().enumerate() {
                    text.push_str(&format!("  {} {line}\n", if at == 0 { "-" } else { " " }));
                }
            }
        }
        for reason in &proposal.unresolved {
            let at = if reason.path.is_empty() { String::new() } else { format!("{}: ", reason.path) };
            text.push_str(&comment("", &Reason { reason: format!("{at}{}", reason.reason), ..reason.clone() }));
        }
    }
    Ok(text)
}

fn comment(indent: &str, reason: &Reason) -> String {
    // The names in a schema are other people's text: characters that would end the comment are not printed.
    let text: String = reason.reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!("{indent}# {}: {text}\n", reason.confidence.word())
}
