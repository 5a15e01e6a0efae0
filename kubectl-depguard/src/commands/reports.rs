//! Schema of all reports.

use depguard_controller::owners::Plan;
use serde_json::Value;

use super::{dangling, impact, import, lint, order, rules, status, suggest, test, trace, unused, version, why};
use crate::io::report::{ReportList, ReportSchemas};

/// Returns the JSON schema of the objects that commands print with `-o json`.
pub fn report_schema() -> Value {
    let mut schemas = ReportSchemas::new();
    schemas.add::<dangling::Report>();
    schemas.add::<impact::Report<'_>>();
    schemas.add::<ReportList<'_, impact::Report<'_>>>();
    schemas.add::<import::ImportResult>();
    schemas.add::<lint::LintReport<'_>>();
    schemas.add::<order::PlanReport<'_>>();
    schemas.add::<Plan>();
    schemas.add::<rules::PackList>();
    schemas.add::<status::Report>();
    schemas.add::<suggest::Proposals<'_>>();
    schemas.add::<test::Summary<'_>>();
    schemas.add::<trace::Report>();
    schemas.add::<ReportList<'_, trace::Report>>();
    schemas.add::<unused::Report>();
    schemas.add::<version::Report>();
    schemas.add::<why::WhyReport<'_>>();
    schemas.finish()
}
