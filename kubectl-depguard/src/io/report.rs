//! Reports: the results of commands for programs. Each is one object with an `apiVersion` and a `kind`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::io::exit::Failure;
use crate::io::output;
use crate::io::terminal::Terminal;

/// Version of all reports. Within a version, a report may get new fields, but loses none.
pub(crate) const API_VERSION: &str = "cli.dependencies.opendefense.cloud/v1alpha1";

/// Result of a command that prints it as JSON or YAML.
pub(crate) trait CommandReport: Serialize + JsonSchema {
    /// Kind of the report, as `WhyReport`.
    const KIND: &'static str;
}

/// Report as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypedReport<'r, R> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    report: &'r R,
}

/// Prints a report as JSON.
pub(crate) fn print_json<R: CommandReport>(report: &R, terminal: &mut Terminal) -> Result<(), Failure> {
    output::print_json(&typed(report), terminal)
}

/// Prints a report as YAML.
pub(crate) fn print_yaml<R: CommandReport>(report: &R, terminal: &mut Terminal) -> Result<(), Failure> {
    output::print_yaml(&typed(report), terminal)
}

fn typed<R: CommandReport>(report: &R) -> TypedReport<'_, R> {
    TypedReport { api_version: API_VERSION, kind: R::KIND, report }
}
