//! Queries of alerts and of the dashboard, held to the metrics in docs/operations.md.

use std::collections::{BTreeMap, BTreeSet};

use crate::documented::{self, Row};
use crate::promql::{self, Expression, Series};

/// Returns the row of the metric to which a series belongs. A histogram's series carry its name with a suffix.
fn row<'a>(series: &Series, rows: &'a BTreeMap<String, Row>) -> Option<(&'a String, &'a Row)> {
    let whole = ["_bucket", "_count", "_sum"].into_iter().find_map(|end| series.name.strip_suffix(end));
    let histogram = whole.and_then(|whole| rows.get_key_value(whole)).filter(|(_, row)| row.kind == "histogram");
    rows.get_key_value(&series.name).filter(|(_, row)| row.kind != "histogram").or(histogram)
}

/// Returns the metrics of a query.
pub(crate) fn metrics(asks: &Expression, rows: &BTreeMap<String, Row>) -> BTreeSet<String> {
    asks.series.iter().filter_map(|series| row(series, rows)).map(|(name, _)| name.clone()).collect()
}

/// Returns the faults in the query of an alert or a panel: unknown metrics, labels and values.
pub(crate) fn faults(of: &str, query: &str, rows: &BTreeMap<String, Row>) -> Vec<String> {
    let asks = match promql::read(query) {
        Ok(asks) => asks,
        Err(why) => return vec![format!("{of}: {why}")],
    };
    let mut faults = Vec::new();
    for series in &asks.series {
        let Some((_, row)) = row(series, rows) else {
            faults.push(format!("{of}: there is no {}", series.name));
            continue;
        };
        for (label, values) in &series.labels {
            let listed = row.labels.get(label);
            let known = |value: &String| listed.is_some_and(|listed| listed.is_empty() || listed.contains(value));
            let unknown = values.iter().filter(|value| !known(value));
            faults.extend(unknown.map(|value| format!("{of}: {} has no {label}={value}", series.name)));
        }
    }
    for (label, summed) in &asks.by {
        let has = |series: &Series| {
            let buckets = series.name.ends_with("_bucket") && label == "le";
            buckets || row(series, rows).is_some_and(|(_, row)| row.labels.contains_key(label))
        };
        if !summed.iter().all(has) {
            faults.push(format!("{of}: not all that is summed up has {label}"));
        }
    }
    faults
}

#[test]
fn a_query_of_what_is_not_there_is_found_out() {
    let rows = documented::metrics(
        "| `depguard_a_total` | counter | `cause`: `x`, `y`; `free` | |\n| `depguard_b` | histogram | | |",
    );
    for good in [
        r#"sum by (cause) (rate(depguard_a_total{cause=~"x|y",free="z"}[5m])) > 0"#,
        "histogram_quantile(0.9, sum by (le) (rate(depguard_b_bucket[5m]))) > 1",
    ] {
        assert_eq!(faults("A", good, &rows), [""; 0], "{good}");
        assert_eq!(metrics(&promql::read(good).unwrap(), &rows).len(), 1, "{good}");
    }
    for bad in [
        "depguard_a > 0",
        "depguard_c_total > 0",
        "depguard_b > 0",
        "depguard_a_total_bucket > 0",
        r#"depguard_a_total{cause="z"} > 0"#,
        r#"depguard_a_total{cause=~"x|z"} > 0"#,
        r#"depguard_a_total{why="x"} > 0"#,
        "sum by (why) (depguard_a_total) > 0",
        "sum by (le) (depguard_a_total) > 0",
        "rate(depguard_a_total) > 0",
    ] {
        assert_eq!(faults("A", bad, &rows).len(), 1, "{bad}");
    }
}
