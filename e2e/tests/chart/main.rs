//! Tests of the chart: its rendered objects, and the commands of docs/operations.md on a real kube-apiserver.

mod admitted;
mod chart;
mod deleter;
mod documented;
mod installed;
mod lifecycle;
mod node;
mod packed;
mod rendered;
mod upgraded;
mod values;
mod walkthrough;

use std::path::Path;
use std::sync::Arc;

use depguard_e2e::tools::Tools;
use depguard_e2e::{Ring, Stop, Tally};

use crate::admitted::Cluster;
use crate::chart::Chart;

fn main() {
    let mut tally = Tally::new("chart");
    match Tools::find() {
        Ok(tools) => {
            let chart = Chart::new(tools);
            offline(&chart, &mut tally);
            on_a_cluster(&chart, &mut tally);
        }
        Err(reason) if Tools::are_a_must() => tally.record("helm is there", Err(Stop::Failed(reason))),
        Err(reason) => tally.record("what the chart renders", Err(Stop::Skipped(reason))),
    }
    tally.conclude();
}

/// Runs the checks that need no API server.
fn offline(chart: &Chart, tally: &mut Tally) {
    tally.record("helm finds nothing to complain about", rendered::lint(chart));
    tally.record("the package has the changes of its version", packed::has_the_changes(chart));
    tally.record("an older Kubernetes is refused", packed::is_for_new_clusters(chart));
    for case in values::RENDERED {
        tally.record(&format!("rendered: {}", case.name), rendered::check(chart, case));
    }
    for (values, setting, said) in values::REJECTED {
        tally.record(&format!("rejected: {setting}"), rendered::is_rejected(chart, values, setting, said));
    }
    tally.record("the rights and the CRD are those that the controller prints", rendered::as_printed(chart));
    tally.record("the dashboard is rendered as it is", rendered::dashboard(chart));
    tally.record("the values in the documents are rendered", documented::values(chart));
    tally.record("the binaries take the flags in the documents", documented::flags());
    tally.record("in another namespace everything is of that one", rendered::elsewhere(chart));
    tally.record("kubectl depguard install has the chart's objects", installed::as_rendered(chart));
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            for (values, flags) in installed::SAME {
                let same = runtime.block_on(installed::is_the_chart(chart, values, flags));
                tally.record(&format!("installed as the chart has it: {}", flags.join(" ")), same);
            }
        }
        Err(why) => tally.record("installed as the chart has it", Err(why.into())),
    }
}

/// Runs the checks on real kube-apiservers. The dry runs, the command line, the upgrade and the document have a fresh
/// server each, because the last three change theirs.
fn on_a_cluster(chart: &Chart, tally: &mut Tally) {
    const WHAT: &str = "the chart on a kube-apiserver";
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(why) => return tally.record(WHAT, Err(why.into())),
    };
    let start = || match runtime.block_on(Ring::cluster()) {
        Ok(ring) => ring.map(Arc::new),
        Err(reason) => Err(Stop::Skipped(reason)),
    };
    let prepared = start().and_then(|ring| Ok((runtime.block_on(Cluster::prepare(&ring, &chart.tools))?, ring)));
    match prepared {
        Ok((cluster, _ring)) => {
            tally.record("the API server sees mistakes", cluster.sees_mistakes(chart));
            for case in values::RENDERED {
                tally.record(&format!("the API server takes: {}", case.name), cluster.takes(chart, case));
            }
        }
        Err(stop) => return tally.record(WHAT, Err(stop)),
    }
    let installed = start().and_then(|ring| runtime.block_on(lifecycle::from_install_to_uninstall(ring)));
    tally.record("kubectl depguard installs, tells and uninstalls", installed);
    let upgraded = start().and_then(|ring| runtime.block_on(upgraded::there_and_back(ring, chart)));
    tally.record("helm upgrades from a former chart and rolls back", upgraded);
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let walked = std::fs::read_to_string(document).map_err(Stop::from).and_then(|document| {
        let ring = start()?;
        runtime.block_on(walkthrough::through(ring, &chart.tools, &document))
    });
    tally.record("docs/operations.md is walked through", walked);
}
