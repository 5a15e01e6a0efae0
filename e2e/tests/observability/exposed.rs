//! Metrics that a binary exposes at `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use depguard_e2e::{Outcome, Stop, ensure, page_at};

/// Metrics by their names, in the form that PromQL expressions use.
pub(crate) type Metrics = BTreeMap<String, Metric>;

/// One metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    /// The labels of the metric's series, with all values that were seen.
    pub(crate) labels: BTreeMap<String, BTreeSet<String>>,
    pub(crate) series: BTreeMap<String, String>,
}

/// Reads and parses the page of metrics.
pub(crate) async fn scrape(address: SocketAddr) -> Outcome<Metrics> {
    let answer = page_at(address, "/metrics").await?;
    let (head, page) = answer.split_once("\r\n\r\n").ok_or_else(|| Stop::failed("no HTTP"))?;
    let typed = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    ensure(head.starts_with("HTTP/1.1 200 ") && head.contains(typed), || head.to_owned())?;
    ensure(page.ends_with("# EOF\n"), || "the page has no end".to_owned())?;
    read(page)
}

fn read(page: &str) -> Outcome<Metrics> {
    let mut metrics = Metrics::new();
    let mut family = (String::new(), String::new());
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').ok_or_else(|| Stop::failed(line))?;
            family = (name.to_owned(), kind.to_owned());
            let known = metrics.insert(full_name(name, kind), Metric { kind: kind.to_owned(), ..Metric::default() });
            ensure(known.is_none(), || format!("{name} is there twice"))?;
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| Stop::failed(line))?;
            let metric = metrics.get_mut(&full_name(&family.0, &family.1));
            let metric = metric.filter(|_| series.starts_with(&family.0)).ok_or_else(|| Stop::failed(line))?;
            metric.series.insert(series.to_owned(), value.to_owned());
            for (label, value) in labels(series).filter(|(label, _)| *label != "le") {
                metric.labels.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
    }
    Ok(metrics)
}

/// Returns the name of a metric's series; counters and infos have a suffix.
fn full_name(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}

/// Returns the labels of a series. No label value of depguard contains a quotation mark or a comma.
fn labels(series: &str) -> impl Iterator<Item = (&str, &str)> {
    let inside = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
    inside.split(',').filter_map(|pair| Some((pair.split_once('=')?.0, pair.split_once('=')?.1.trim_matches('"'))))
}
