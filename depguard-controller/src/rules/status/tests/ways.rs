//! Statuses of rules, by the way in which dependents are read.

use super::*;

#[test]
fn that_no_export_shows_the_dependents_is_said() {
    let local = || Setting::from_rule(local(rule("compute", "a", &[(NETWORK, "configmaps")])));
    let through = |read_through| Setting { read_through, ..local() };
    assert!(through(ReadThrough::FrontProxy).condition("Enforced").starts_with("True Enforced: "));
    let said = through(ReadThrough::Export).condition("Enforced");
    assert!(
        said.starts_with("Unknown LocalDependents: no APIExport serves virtualmachines.compute.example.com"),
        "{said}"
    );
    assert!(said.contains("elsewhere deletions of configmaps are refused"), "{said}");
    let exported = Setting { read_through: ReadThrough::Export, ..Setting::from_rule(vm_to_vpc()) };
    assert!(exported.condition("Enforced").starts_with("True Enforced: "));
}
