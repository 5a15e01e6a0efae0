//! The scenarios, each run on every ring where it makes sense.

mod deletion;
mod teardown;

use depguard_e2e::Scenario;
use depguard_e2e::runner;

fn main() {
    let scenarios = [
        Scenario::new("a referenced object is denied by name and a free one deleted", deletion::referenced),
        Scenario::new("a collection delete stops at a referenced object", deletion::collection),
        Scenario::new("any served version of the target is protected", deletion::another_version),
        Scenario::new("a cluster-scoped dependent protects a namespaced target", deletion::cluster_scoped_dependent),
        Scenario::new("a cluster-scoped target is protected from all namespaces", deletion::cluster_scoped_target),
        Scenario::new("1,500 blockers give a readable message", deletion::many_blockers),
        Scenario::new("the same kind of another provider is not touched", deletion::another_provider).on_kcp(),
        Scenario::new("a provider may lie deep in the tree", deletion::nested_provider).on_kcp(),
        Scenario::new("a namespace ends in the order of its references", teardown::namespace).tears_down(),
        Scenario::new("a workspace ends in the order of its references", teardown::workspace).on_kcp(),
        Scenario::new("unbinding the target's API waits for the dependents", teardown::unbinding).on_kcp(),
        Scenario::new("a tenant lifts nothing by the annotation and a namespace", teardown::tenant).tears_down(),
    ];
    if !runner::main(&scenarios) {
        std::process::exit(1);
    }
}
