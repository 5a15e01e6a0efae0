//! The dashboard for Grafana, made from the list of panels in `panels.rs`.
//!
//! `DEPGUARD_WRITE=1 cargo test -p depguard-e2e --test observability dashboard` writes the file.

mod panels;

use std::collections::BTreeSet;
use std::path::Path;

use depguard_e2e::generated;
use serde_json::{Value, json};

use self::panels::{Form, Panel, ROWS};
use crate::{GUIDE, documented, promql, queries};

/// Width of a dashboard, in Grafana's units.
const WIDTH: u32 = 24;

impl Panel {
    fn json(&self, id: usize, [x, y, width, height]: [u32; 4]) -> Value {
        let Panel { title, form, unit, queries, meaning } = self;
        let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
        let targets = queries.iter().zip('A'..).map(|((query, legend), letter)| {
            json!({"datasource": datasource, "expr": query, "legendFormat": legend, "refId": letter.to_string()})
        });
        let steps = match form {
            Form::Alarm => json!([{"color": "green", "value": null}, {"color": "red", "value": 1}]),
            Form::Number | Form::Lines => json!([{"color": "green", "value": null}]),
        };
        json!({
            "id": id,
            "title": title,
            "description": meaning,
            "type": if matches!(form, Form::Lines) { "timeseries" } else { "stat" },
            "datasource": datasource,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {
                "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
                "overrides": [],
            },
            "targets": targets.collect::<Vec<_>>(),
        })
    }

    /// Returns the width and height, in Grafana's units.
    fn size(&self) -> (u32, u32) {
        if matches!(self.form, Form::Lines) { (8, 8) } else { (3, 4) }
    }
}

/// Returns the dashboard in Grafana's form.
fn dashboard() -> String {
    let (mut panels, mut top) = (Vec::new(), 0);
    for (title, row) in ROWS {
        let at = json!({"x": 0, "y": top, "w": WIDTH, "h": 1});
        panels.push(json!({"id": panels.len() + 1, "type": "row", "title": title, "gridPos": at, "collapsed": false}));
        top += 1;
        let (mut left, mut tallest) = (0, 0);
        for panel in row {
            let (width, height) = panel.size();
            if left + width > WIDTH {
                (left, top, tallest) = (0, top + tallest, 0);
            }
            panels.push(panel.json(panels.len() + 1, [left, top, width, height]));
            (left, tallest) = (left + width, tallest.max(height));
        }
        top += tallest;
    }
    let dashboard = json!({
        "uid": "depguard",
        "title": "depguard",
        "tags": ["depguard"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    });
    format!("{dashboard:#}\n")
}

/// Returns the labels that a legend shows.
fn shown(legend: &str) -> BTreeSet<&str> {
    legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect()
}

/// Returns the faults of a query and of its legend, which must tell the query's series apart.
fn faults(title: &str, query: &str, legend: &str) -> Vec<String> {
    let mut faults = queries::faults(title, query, &documented::metrics(GUIDE));
    let asks = promql::read(query).unwrap_or_default();
    let by: BTreeSet<_> = asks.by.iter().map(|(label, _)| label.as_str()).filter(|label| *label != "le").collect();
    if shown(legend) != by {
        faults.push(format!("{title}: the legend shows {:?}, the series have {by:?}", shown(legend)));
    }
    faults
}

fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let panels = ROWS.iter().flat_map(|(_, row)| row.iter());
    panels.flat_map(|panel| panel.queries.iter().map(|(query, legend)| (panel.title, *query, *legend)))
}

#[test]
fn the_dashboard_in_the_chart_is_made_from_the_panels() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/depguard/dashboard.json");
    generated::compare(&file, &dashboard(), "cargo test -p depguard-e2e --test observability dashboard").unwrap();
}

#[test]
fn each_panel_asks_for_metrics_that_are_there_and_each_metric_has_a_panel() {
    let found: Vec<_> = all().flat_map(|(title, query, legend)| faults(title, query, legend)).collect();
    assert!(found.is_empty(), "{found:#?}");
    let rows = documented::metrics(GUIDE);
    let asked: BTreeSet<_> =
        all().flat_map(|(_, query, _)| queries::metrics(&promql::read(query).unwrap(), &rows)).collect();
    assert_eq!(asked, rows.keys().cloned().collect(), "in panels, and in docs/operations.md");
    // Each of these is seen.
    for (query, legend) in [
        ("sum by (cause) (rate(depguard_reviews_total[5m]))", "{{cause}}"),
        ("sum by (decision) (rate(depguard_review_total[5m]))", "{{decision}}"),
        ("sum by (decision) (rate(depguard_reviews_total[5m]))", "{{operation}}"),
        ("sum by (decision) (rate(depguard_reviews_total[5m]))", ""),
        ("sum(depguard_rules", ""),
    ] {
        assert!(!faults("A", query, legend).is_empty(), "{query} {legend}");
    }
}

#[test]
fn panels_have_titles_of_their_own_and_lie_side_by_side() {
    let dashboard: Value = serde_json::from_str(&dashboard()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let titles: BTreeSet<_> = panels.iter().map(|panel| panel["title"].as_str().unwrap()).collect();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert!(titles.len() == panels.len() && ids.len() == panels.len());
    let cells = panels.iter().flat_map(|panel| {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        let (x, y, w, h) = (at("x"), at("y"), at("w"), at("h"));
        assert!(x + w <= u64::from(WIDTH));
        (y..y + h).flat_map(move |y| (x..x + w).map(move |x| (x, y)))
    });
    let (mut taken, mut count) = (BTreeSet::new(), 0);
    for cell in cells {
        taken.insert(cell);
        count += 1;
    }
    assert_eq!(taken.len(), count, "panels overlap");
}
