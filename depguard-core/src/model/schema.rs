//! Schemas of what a wire type holds as plain text, and steps that several wire types share.
//!
//! Each text has the limits and the pattern of the type that parses it.

use std::borrow::Cow;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

pub(crate) use crate::model::field_path::FieldPath;
pub(crate) use crate::model::message_template::Message;
pub(crate) use crate::model::names::{
    ExportName, Group, Kind, Namespace, ObjectName, Resource, Separator, Version, WorkspacePath,
};

/// Value of a label.
pub(crate) struct LabelValue;

/// Pattern of a label's key.
pub(crate) const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

/// Pattern of `[*]`, `[0]`, `['quoted']` or `["quoted"]`.
macro_rules! bracket {
    () => {
        r#"\[(\*|0|[1-9][0-9]*|'([^'\\\p{Cc}]|\\['"\\])+'|"([^"\\\p{Cc}]|\\['"\\])+")\]"#
    };
}

macro_rules! texts {
    ($($type:ident: $min:literal..=$max:expr, $pattern:expr, $message:expr;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema =
                    json_schema!({"type": "string", "minLength": $min, "maxLength": $max, "pattern": $pattern});
                explained($message)(&mut schema);
                schema
            }
        }
    )*};
}

texts! {
    ExportName: 1..=Self::MAX_LEN, r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*$",
        "write the name of an APIExport, such as network.example.com: small letters, digits, dashes and dots";
    Group: 0..=Self::MAX_LEN, r"^([a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*)?$",
        "write an API group without its version, such as network.example.com, or nothing for the core group";
    Kind: 1..=Self::MAX_LEN, r"^[A-Z][A-Za-z0-9]*$",
        "write the name of a kind, such as VirtualMachine: it begins with a capital letter";
    Namespace: 1..=Self::MAX_LEN, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "write the name of a namespace, such as team-a: small letters, digits and dashes";
    ObjectName: 1..=Self::MAX_LEN, r"^[a-z0-9A-Z]([-a-z0-9A-Z.:_]*[a-z0-9A-Z])?$",
        "write the name of an object: letters, digits, and between them dashes, dots, colons and underscores";
    Resource: 1..=Self::MAX_LEN, r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "write the plural name of a resource in small letters, such as virtualmachines";
    Separator: 1..=Self::MAX_LEN, r"^[ -~\t\n]+$", "write ASCII characters, tabs and line breaks only";
    Version: 1..=Self::MAX_LEN, r"^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$", "write a version, such as v1 or v1beta1";
    WorkspacePath: 1..=Self::MAX_LEN, r"^[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)*$",
        "write the path of a workspace, such as root:providers:network";
    // A name or a bracket, followed by brackets and by names or the call behind dots. The first dot is not part of the length.
    FieldPath: 1..=Self::MAX_LEN + 1, concat!(
        r"^(\.?([a-zA-Z_][a-zA-Z0-9_]*|\*)|", bracket!(), r")(\.([a-zA-Z_][a-zA-Z0-9_]*|\*|fromJSON\(\))|", bracket!(), r")*$",
    ), "write the path of a field, such as .spec.vpcRef.name, and quote a name that has other characters than letters, \
        digits and underscores, as in .metadata.annotations['example.com/vpc']";
    // Text of one line, its braces doubled or around a placeholder.
    Message: 1..=Self::MAX_LEN, r"^([^{\p{Cc}]|\{\{|\{(target|blockers|rule)\})+$",
        "write one line, with braces only in {target}, {blockers}, {rule} and {{";
}

impl JsonSchema for LabelValue {
    fn schema_name() -> Cow<'static, str> {
        "LabelValue".into()
    }

    // A selector has too many values for an API server to explain each pattern.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
        json_schema!({"type": "string", "minLength": 0, "maxLength": 63, "pattern": pattern})
    }
}

/// Returns the step that adds the CEL rule by which an API server says in words what the pattern of a schema asks for. The
/// rule stands beside the pattern, which tools can check that know no CEL.
pub(crate) fn explained(message: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        let rule =
            schema.get("pattern").and_then(Value::as_str).map(|pattern| format!(r#"self.matches(r"""{pattern}""")"#));
        schema.insert("x-kubernetes-validations".to_owned(), json!([{"rule": rule, "message": message}]));
    }
}

/// Returns the schema of a list of objects with whatever fields.
#[cfg_attr(not(feature = "locks"), expect(dead_code, reason = "only the schemas of locks need this"))]
pub(crate) fn any_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// Returns the schema of `dependent.apiExportRef`, which holds whatever older rules held there.
pub(crate) fn old_export_ref(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "properties": {"path": {"type": "string"}, "name": {"type": "string"}}})
}

/// Removes the CEL rules of a schema and of all schemas in it.
pub(crate) fn without_cel_rules(schema: &mut Schema) {
    schema.remove("x-kubernetes-validations");
    transform_subschemas(&mut without_cel_rules, schema);
}
