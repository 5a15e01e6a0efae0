use std::path::{Path, PathBuf};

use kubectl_depguard::ExitStatus;

use crate::page::chromium::Chromium;
use crate::tool::{depguard, write};

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guide")
}

/// Writes the page about the guide's files, with the commands that name them as the guide does.
async fn guide_page(folder: &Path) -> PathBuf {
    let files = ["crds.yaml", "rules.yaml", "objects.yaml"].map(|name| guide().join(name));
    let args: Vec<_> = files.iter().flat_map(|file| ["-f", file.to_str().unwrap()]).collect();
    let page = depguard(&[&["graph", "-o", "html"], &args[..]].concat()).await.well();
    write(folder, "page.html", &page.replace(&format!("{}/", guide().display()), ""))
}

/// Checks that the page ran without an error, and asked for nothing but itself.
fn is_quiet(browser: &Chromium, file: &Path) {
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
    let own = format!("file://{}", file.display());
    assert!(browser.requests.iter().all(|url| url.split('#').next() == Some(&own)), "{:?}", browser.requests);
}

#[tokio::test]
async fn a_person_finds_who_blocks_an_object_by_the_keyboard_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = guide_page(folder.path()).await;
    let Some(mut browser) = Chromium::start() else { return };
    browser.open_file(&file);
    browser.until("document.querySelectorAll('#drawing .canvas a').length === 3");
    assert!(browser.text("#panel").contains("3 kinds, 2 reference fields, 6 objects"), "{}", browser.text("#panel"));
    assert!(browser.text("#panel").contains("Subnet default/jobs"), "a dangling reference is listed");

    browser.press("/");
    browser.type_text("subnet web");
    browser.until("document.querySelectorAll('#results [role=option]').length === 1");
    assert_eq!(browser.evaluate("document.activeElement.getAttribute('aria-activedescendant')"), "found-0");
    browser.press("Enter");
    browser.until("location.hash.startsWith('#object/subnets')");
    let panel = browser.text("#panel");
    assert!(panel.contains("Can't be deleted: blocked by 2 objects."), "{panel}");
    for expected in ["VirtualMachine default/web-1", "VirtualMachine default/web-2", "VPC default/shop"] {
        assert!(panel.contains(expected), "{expected} in {panel}");
    }
    // Each with the command to copy, dependents first.
    let first = panel.find("kubectl delete virtualmachines.compute.example.com web-1 -n default").unwrap();
    let last = panel.find("kubectl delete subnets.network.example.com web -n default").unwrap();
    assert!(first < last, "{panel}");
    assert!(panel.contains("kubectl depguard why subnets.network.example.com web -n default -f crds.yaml"), "{panel}");
    // A screen reader is told, and is at the heading.
    assert!(browser.text("#live").contains("blocked by 2 objects"), "{}", browser.text("#live"));
    assert_eq!(browser.evaluate("document.activeElement.tagName"), "H2");

    // Arrow keys walk along the references, and Enter opens what they reach.
    assert_eq!(browser.evaluate("document.querySelectorAll('.canvas a[tabindex=\"0\"]').length"), 1);
    browser.evaluate("document.querySelector('.canvas a[tabindex=\"0\"]').focus()");
    browser.press("ArrowRight");
    browser.until("document.activeElement.getAttribute('aria-label')?.startsWith('VPC default/shop')");
    browser.press("Enter");
    browser.until("location.hash.startsWith('#object/vpcs')");
    browser.until("document.activeElement.closest('.canvas') !== null");
    browser.press("Escape");
    browser.until("document.querySelector('#panel h2').textContent === 'All kinds'");

    browser.press("?");
    browser.until("document.querySelector('#keys').open");
    browser.press("Escape");
    browser.until("!document.querySelector('#keys').open");
    is_quiet(&browser, &file);
}

#[tokio::test]
async fn each_part_has_a_name_and_a_role_for_screen_readers() {
    let folder = tempfile::tempdir().unwrap();
    let file = guide_page(folder.path()).await;
    let Some(mut browser) = Chromium::start() else { return };
    browser.open_file(&file);
    browser.until("document.querySelectorAll('#drawing .canvas a').length === 3");
    let tree = browser.call("Accessibility.getFullAXTree", &serde_json::json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let shown = |node: &serde_json::Value| node["ignored"] != true;
    let interactive = ["link", "button", "combobox", "searchbox", "textbox", "listbox", "dialog"];
    for node in nodes.iter().filter(|node| shown(node)) {
        let (role, name) = (node["role"]["value"].as_str().unwrap_or_default(), node["name"]["value"].as_str());
        if interactive.contains(&role) {
            assert!(name.is_some_and(|name| !name.is_empty()), "{node}");
        }
    }
    let has = |role: &str, part: &str| {
        nodes.iter().any(|node| {
            shown(node)
                && node["role"]["value"] == role
                && node["name"]["value"].as_str().is_some_and(|name| name.contains(part))
        })
    };
    for (role, name) in [
        ("link", "VirtualMachine, 3 objects, 1 dangling reference"),
        ("combobox", "Search objects"),
        ("heading", "All kinds"),
        ("columnheader", "Objects"),
    ] {
        assert!(has(role, name), "no {role} {name}");
    }
    assert!(nodes.iter().any(|node| node["role"]["value"] == "main"), "no main");
}

#[tokio::test]
async fn dark_and_calm_are_as_the_user_prefers() {
    let folder = tempfile::tempdir().unwrap();
    let file = guide_page(folder.path()).await;
    let Some(mut browser) = Chromium::start() else { return };
    browser.open_file(&file);
    let background = "getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.evaluate(background), "rgb(255, 255, 255)");
    browser.prefer("prefers-color-scheme", "dark");
    assert_eq!(browser.evaluate(background), "rgb(16, 20, 26)");
    let transition = "getComputedStyle(document.querySelector('.canvas rect')).transitionDuration";
    browser.prefer("prefers-reduced-motion", "no-preference");
    assert_ne!(browser.evaluate(transition), "0s");
    browser.prefer("prefers-reduced-motion", "reduce");
    assert_eq!(browser.evaluate(transition), "0s");
    // A phone shows all of it in its width.
    browser.size(390, 844);
    browser.until("document.documentElement.scrollWidth <= 390");
    is_quiet(&browser, &file);
}

/// The pictures of the README and the guide are of this page, and `DEPGUARD_WRITE=1` takes them.
#[tokio::test]
async fn the_documents_show_pictures_of_the_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        let folder = tempfile::tempdir().unwrap();
        let file = guide_page(folder.path()).await;
        let Some(mut browser) = Chromium::start() else { return };
        for (name, scheme, link) in
            [("page.png", "light", "#object/subnets.network.example.com/default/web"), ("page-dark.png", "dark", "")]
        {
            browser.prefer("prefers-color-scheme", scheme);
            browser.open(&format!("file://{}{link}", file.display()));
            browser.until("document.querySelectorAll('#drawing .canvas a').length >= 3");
            std::fs::write(docs.join(name), browser.screenshot()).unwrap();
        }
    }
    for name in ["page.png", "page-dark.png"] {
        let png = std::fs::read(docs.join(name)).unwrap();
        let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!((&png[..8], size(16), size(20)), (&b"\x89PNG\r\n\x1a\n"[..], 1280, 800), "{name}");
        assert!(png.len() < 150_000, "{name} has {} bytes", png.len());
    }
}

/// Rule that a page can use, rule that it can't, and objects.
const PARTS: &str = r#"
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: vms}, spec: {
  dependent: {group: c.example.com, version: v1, kind: VM, resource: vms},
  dependencies: [{group: n.example.com, version: v1, kind: Net, resource: nets, fieldRef: {path: .spec.net}}]}}
---
{apiVersion: n.example.com/v1, kind: Net, metadata: {name: a}}
---
{apiVersion: n.example.com/v1, kind: Net, metadata: {name: locked}}
---
{apiVersion: c.example.com/v1, kind: VM, metadata: {name: m}, spec: {net: other}}
---
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: ClusterObjectLock, metadata: {name: freeze}, spec: {
  targets: [{group: n.example.com, resource: nets, name: locked}], reason: move}}
"#;

const BROKEN: &str = r#"---
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: broken}, spec: {
  dependent: {group: c.example.com, version: v1, kind: VM, resource: vms},
  dependencies: [{group: n.example.com, version: v1, resource: nets, fieldRef: {path: .spec.b-c}}]}}
"#;

#[tokio::test]
async fn a_page_that_lacks_a_part_never_says_that_nothing_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(folder.path(), "whole.yaml", PARTS);
    let part = write(folder.path(), "part.yaml", &format!("{PARTS}{BROKEN}"));
    let page = depguard(&["graph", "-o", "html", "-f", whole.to_str().unwrap()]).await;
    assert_eq!(page.status, ExitStatus::Well, "{}", page.err);
    let whole = write(folder.path(), "whole.html", &page.out);
    let page = depguard(&["graph", "-o", "html", "-f", part.to_str().unwrap()]).await;
    assert_eq!(page.status, ExitStatus::Failure);
    assert!(page.err.contains("the page is incomplete") && page.err.contains("rule broken"), "{}", page.err);
    let part = write(folder.path(), "part.html", &page.out);

    let Some(mut browser) = Chromium::start() else { return };
    let mut state = |file: &Path, name: &str| {
        browser.open(&format!("file://{}#object/nets.n.example.com//{name}", file.display()));
        browser.until("document.querySelector('.state') !== null");
        (browser.text(".state"), browser.text("#warning"))
    };
    assert_eq!(state(&whole, "a"), ("No rule and no lock blocks its deletion.".to_owned(), String::new()));
    let (said, warning) = state(&part, "a");
    assert_eq!(said, "Unknown: nothing that was read blocks it, but not everything could be read.");
    assert!(warning.contains("1 part could not be read"), "{warning}");
    let (said, _) = state(&whole, "locked");
    assert_eq!(said, "Can't be deleted: locked by ClusterObjectLock freeze.");
    let (said, _) = state(&whole, "other");
    assert_eq!(said, "Does not exist, but 1 object refers to it.");
}

#[tokio::test]
async fn a_kind_shows_what_its_rules_do_about_deletions_and_missing_targets() {
    let folder = tempfile::tempdir().unwrap();
    let strict = PARTS.replacen("fieldRef:", "onDelete: Warn, onMissing: Deny, fieldRef:", 1);
    let page = |rules: &str| write(folder.path(), "rules.yaml", rules);
    let Some(mut browser) = Chromium::start() else { return };
    for (rules, missing) in [(strict.as_str(), true), (PARTS, false)] {
        let page = depguard(&["graph", "-o", "html", "-f", page(rules).to_str().unwrap()]).await.well();
        let page = write(folder.path(), "page.html", &page);
        browser.open(&format!("file://{}#kind/nets.n.example.com", page.display()));
        browser.until("document.querySelector('#panel h2').textContent === 'Net'");
        let panel = browser.text("#panel");
        assert_eq!(panel.contains("missing targets: Deny"), missing, "{panel}");
        assert_eq!(panel.contains("only warns"), missing, "{panel}");
    }
}
