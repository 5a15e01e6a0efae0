//! `suggest`: proposals of rules from the schemas of kinds.

mod command;
mod definitions;
mod measured;

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::depguard_reading;

/// Runs the command on these definitions, and returns its exit status, output and messages.
pub(crate) async fn suggest(documents: &[Value], args: &[&str]) -> (ExitStatus, String, String) {
    let text: Vec<_> = documents.iter().map(Value::to_string).collect();
    depguard_reading(&[&["suggest", "-f", "-"], args].concat(), text.join("\n---\n")).await
}
