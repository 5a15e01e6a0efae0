//! Tables: columns that an API server prints of objects, read to find the objects that may refer to a target.
//!
//! A server evaluates the printer columns of a schema itself, at a tenth of the cost of sending the objects. A column
//! stands for a field only if its description says so: the server writes that description for a column that has none
//! in the schema. A server may print a cell from a value that is no string, such as a list. A row therefore only
//! tells which objects to look at.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::model::field_path::FieldPath;
use crate::scan::extract::{Page, PageError};
use crate::scan::text::Text;

/// The text that a server writes before a column's JSONPath.
const DESCRIPTION: &str = "Custom resource definition column (in JSONPath format): ";

/// One page of a table, reduced to some fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The names of the objects that may hold one of the values, and the page's metadata of its list.
    Hits(Vec<String>, Page),
    /// The table doesn't show all of the fields.
    Blind,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    column_definitions: Option<Vec<Column<'a>>>,
    rows: Option<Vec<Row>>,
    metadata: Option<Page>,
}

#[derive(Deserialize)]
struct Column<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    format: Option<Text<'a>>,
    #[serde(borrow)]
    description: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// Reads a page and finds the objects that hold, in one of these fields, a value that `selects` accepts.
pub(crate) fn read(
    body: &[u8],
    fields: &BTreeSet<&FieldPath>,
    selects: impl Fn(&str) -> bool,
) -> Result<Rows, PageError> {
    let table: Table<'_> = serde_json::from_slice(body)?;
    let is_table = table.kind.as_ref().is_some_and(|kind| kind.as_str() == "Table");
    let (Some(columns), Some(page), true) = (table.column_definitions, table.metadata, is_table) else {
        return Ok(Rows::Blind);
    };
    let is_name = |column: &Column<'_>| column.format.as_ref().is_some_and(|format| format.as_str() == "name");
    let Some(name) = columns.iter().position(is_name) else { return Ok(Rows::Blind) };
    let column_of = |field: &&FieldPath| {
        let path = field.to_string();
        columns.iter().position(|column| column.shows(&path))
    };
    let Some(shown) = fields.iter().map(column_of).collect::<Option<Vec<_>>>() else { return Ok(Rows::Blind) };
    let mut hits = Vec::new();
    for Row { cells } in table.rows.unwrap_or_default() {
        let mut hit = false;
        for column in &shown {
            match cells.get(*column) {
                Some(Value::Null) => {}
                Some(Value::String(text)) => hit |= selects(text) || may_be_several(text),
                _ => return Ok(Rows::Blind),
            }
        }
        match cells.get(name) {
            _ if !hit => {}
            Some(Value::String(name)) if is_object_name(name) => hits.push(name.clone()),
            _ => return Ok(Rows::Blind),
        }
    }
    Ok(Rows::Hits(hits, page))
}

impl Column<'_> {
    fn shows(&self, path: &str) -> bool {
        let described = self.description.as_ref().and_then(|text| text.as_str().strip_prefix(DESCRIPTION));
        self.r#type.as_str() == "string" && described == Some(path)
    }
}

/// Returns true if a cell may be printed from a list or a map.
fn may_be_several(cell: &str) -> bool {
    cell.starts_with(['[', '{']) || cell.starts_with("map[")
}

/// Returns true if the name can stand in a URL unchanged.
fn is_object_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b':');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(plain) && name != "." && name != ".."
}

/// Returns true if a 404 says that there is no object of this name. Any other 404 may come from a kind that is
/// temporarily not served, while all its objects exist.
pub(crate) fn says_gone(body: &[u8], name: &str) -> bool {
    #[derive(Deserialize)]
    struct Status {
        details: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        name: String,
        /// Causes, which a client adds to a Status that it made of an answer that was no Status. A virtual workspace
        /// hands such a Status on.
        #[serde(default)]
        causes: Vec<serde::de::IgnoredAny>,
    }
    let status = serde_json::from_slice::<Status>(body);
    status.is_ok_and(|Status { details }| details.name == name && details.causes.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(column: &Value, cells: &Value) -> Value {
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7", "continue": "t"},
            "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "Name must be unique"}, column],
            "rows": [{"cells": cells, "object": null}],
        })
    }

    fn vpc_column() -> Value {
        json!({"name": "VPC", "type": "string", "format": "", "description": format!("{DESCRIPTION}.spec.vpcRef.name"), "priority": 1})
    }

    fn rows(table: &Value) -> Option<Vec<String>> {
        let path = FieldPath::parse(".spec.vpcRef.name").unwrap();
        match read(table.to_string().as_bytes(), &BTreeSet::from([&path]), |name| name == "a").unwrap() {
            Rows::Hits(hits, page) => {
                assert_eq!((page.resource_version.as_deref(), page.continue_token.as_deref()), (Some("7"), Some("t")));
                Some(hits)
            }
            Rows::Blind => None,
        }
    }

    #[test]
    fn a_row_is_a_hit_if_its_cell_may_hold_the_name() {
        for (cell, hit) in [
            (json!("a"), true),
            (json!("b"), false),
            (json!("aa"), false),
            (json!(null), false),
            (json!("[\"a\",\"b\"]"), true),
            (json!("{\"x\":1}"), true),
            (json!("map[x:a]"), true),
        ] {
            let expected = if hit { vec!["m1".to_owned()] } else { vec![] };
            assert_eq!(rows(&table(&vpc_column(), &json!(["m1", cell]))), Some(expected), "{cell}");
        }
    }

    #[test]
    fn a_column_must_prove_itself() {
        for column in [
            json!({"name": "VPC", "type": "string", "format": "", "description": "the VPC"}),
            json!({"name": "VPC", "type": "string", "format": ""}),
            json!({"name": "VPC", "type": "string", "format": "", "description": format!("{DESCRIPTION}.spec.vpcRef")}),
            json!({"name": "VPC", "type": "string", "format": "", "description": format!("{DESCRIPTION}.spec.vpcRef.name ")}),
            json!({"name": "VPC", "type": "integer", "format": "", "description": format!("{DESCRIPTION}.spec.vpcRef.name")}),
        ] {
            assert_eq!(rows(&table(&column, &json!(["m1", "b"]))), None, "{column}");
        }
    }

    #[test]
    fn a_table_that_does_not_tell_is_blind() {
        for cells in
            [json!(["m1"]), json!([]), json!(["m1", 7]), json!(["m1", {}]), json!(["../x", "a"]), json!([null, "a"])]
        {
            assert_eq!(rows(&table(&vpc_column(), &cells)), None, "{cells}");
        }
        let whole = json!({"kind": "VirtualMachineList", "metadata": {"resourceVersion": "7"}, "items": []});
        assert_eq!(rows(&whole), None);
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(read(b"{", &BTreeSet::new(), |_| true).is_err());
    }
}
