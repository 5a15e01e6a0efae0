//! Reports: the results of commands for programs. Each is one object with an `apiVersion` and a `kind`.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

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

/// Report about one object, of which a command prints a list if the user named several objects.
pub(crate) trait ObjectReport: CommandReport {
    /// Kind of the list, as `ImpactReportList`.
    const LIST_KIND: &'static str;
}

/// Reports about the objects that a user named, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReportList<'r, R: ObjectReport> {
    items: Vec<TypedReport<'r, R>>,
}

/// Report as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TypedReport<'r, R> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    report: &'r R,
}

impl<R: ObjectReport> CommandReport for ReportList<'_, R> {
    const KIND: &'static str = R::LIST_KIND;
}

impl<'r, R: ObjectReport> ReportList<'r, R> {
    pub(crate) fn new(reports: impl IntoIterator<Item = &'r R>) -> Self {
        Self { items: reports.into_iter().map(typed).collect() }
    }
}

impl<R: CommandReport> JsonSchema for TypedReport<'_, R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        R::KIND.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"$ref": format!("#/$defs/{}", R::KIND)})
    }
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

/// JSON schemas of reports, each under its kind.
pub(crate) struct ReportSchemas {
    generator: SchemaGenerator,
    kinds: Vec<&'static str>,
}

impl ReportSchemas {
    pub(crate) fn new() -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { generator, kinds: Vec::new() }
    }

    /// Adds the schema of one report.
    pub(crate) fn add<R: CommandReport>(&mut self) {
        let mut schema = R::json_schema(&mut self.generator);
        let report = schema.ensure_object();
        let properties = report.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".to_owned(), json!({"const": API_VERSION}));
            properties.insert("kind".to_owned(), json!({"const": R::KIND}));
        }
        let required = report.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.splice(0..0, ["apiVersion".into(), "kind".into()]);
        }
        self.generator.definitions_mut().insert(R::KIND.to_owned(), schema.to_value());
        self.kinds.push(R::KIND);
    }

    /// Returns one schema that every report fits.
    pub(crate) fn finish(mut self) -> Value {
        let any = self.kinds.iter().map(|kind| json!({"$ref": format!("#/$defs/{kind}")}));
        let any: Vec<_> = any.collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Reports of kubectl depguard",
            "oneOf": any,
            "$defs": self.generator.take_definitions(true),
        })
    }
}
