use std::fmt::Write as _;

use crate::page::chromium::Chromium;
use crate::tool::{depguard, write};

const RULE: &str = r#"
{"apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "vms"}, "spec": {
  "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
  "dependencies": [{"group": "n.example.com", "version": "v1", "kind": "Net", "resource": "nets", "fieldRef": {"path": ".spec.net"}}]}}"#;
const MACHINES: usize = 19_000;
const NETWORKS: usize = 1_000;

#[tokio::test]
async fn twenty_thousand_objects_are_searched_and_only_a_neighbourhood_is_drawn() {
    let mut list = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{RULE}");
    for network in 0..NETWORKS {
        let name = format!(r#"{{"name": "net-{network}", "namespace": "x"}}"#);
        write!(list, r#",{{"apiVersion": "n.example.com/v1", "kind": "Net", "metadata": {name}}}"#).unwrap();
    }
    for machine in 0..MACHINES {
        // Half of them are on one network.
        let network = if machine % 2 == 0 { 0 } else { machine % NETWORKS };
        let name = format!(r#"{{"name": "vm-{machine}", "namespace": "x"}}"#);
        let spec = format!(r#"{{"net": "net-{network}"}}"#);
        write!(list, r#",{{"apiVersion": "c.example.com/v1", "kind": "VM", "metadata": {name}, "spec": {spec}}}"#)
            .unwrap();
    }
    list += "]}";
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.json", &list);
    let page = depguard(&["graph", "-o", "html", "-f", file.to_str().unwrap()]).await.well();
    let file = write(folder.path(), "page.html", &page);

    let Some(mut browser) = Chromium::start() else { return };
    browser.open_file(&file);
    browser.until("document.querySelectorAll('#drawing .canvas a').length === 2");
    assert!(browser.text("#panel").contains("20,000 objects"), "{}", browser.text("#panel"));
    browser.press("/");
    browser.type_text("net-0");
    browser.until("document.querySelector('#results [role=option]')?.textContent === 'Netx/net-0'");
    browser.press("Enter");
    browser.until("document.querySelector('.state')?.textContent === \"Can't be deleted: blocked by 9,500 objects.\"");
    let drawn = browser.evaluate("document.querySelectorAll('#drawing .canvas a').length");
    assert_eq!(drawn, 9, "the network and 8 of its machines");
    assert!(browser.text("#drawing").contains("+9,492 more"), "{}", browser.text("#drawing"));
    let listed = "document.querySelectorAll('#panel li').length";
    assert!(browser.evaluate(listed).as_u64().is_some_and(|rows| rows < 100), "lists grow on request");
    assert!(browser.text("#panel").contains("Show more (9,450 left)"), "{}", browser.text("#panel"));
    browser.evaluate("document.querySelector('#panel .more-rows:not([hidden])').click()");
    browser.until("document.querySelector('#panel').innerText.includes('Show more (9,400 left)')");
    // The kind's list can be filtered.
    browser.evaluate("location.hash = '#kind/vms.c.example.com'");
    browser.until("document.querySelector('.filter') !== null");
    let spoken = "document.querySelector('.canvas a.focus')?.getAttribute('aria-label')";
    assert_eq!(browser.evaluate(spoken), "VM, 19,000 objects");
    browser.evaluate("document.querySelector('.filter').focus()");
    browser.type_text("vm-18999");
    browser.until("document.querySelectorAll('#panel .filter + div li').length === 1");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}
