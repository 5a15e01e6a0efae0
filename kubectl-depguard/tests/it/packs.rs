//! Packs of ready-made rules: their suites, their page, and the definitions of the products.

mod coverage;
mod former;
mod openapi;
mod page;
mod provider;
mod strict;
mod twins;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use depguard_controller::manifests::pack_objects;
use depguard_controller::packs::RulePack;
use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::Value;
use tempfile::TempDir;

use crate::bed::Bed;
use crate::tool::{depguard, write};

/// Folder with the products' definitions, one folder a product: data that is not in this repository.
const CRDS: &str = "DEPGUARD_CRDS";
/// Kubernetes' OpenAPI, which is in its Go module.
const OPENAPI: &str = "DEPGUARD_KUBERNETES_OPENAPI";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the suite of a pack with another file of rules.
fn suite(pack: &RulePack, rules: &str) -> String {
    let path = root().join(format!("examples/suites/packs/{}.test.yaml", pack.name));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let generated = format!("../../../config/rules/{}.yaml", pack.name);
    assert!(text.contains(&generated), "{} tests other rules", path.display());
    text.replace(&generated, rules)
}

/// Writes the objects as a file, and returns its path.
fn file(folder: &TempDir, name: &str, objects: &[Value]) -> String {
    let texts: Vec<_> = objects.iter().map(Value::to_string).collect();
    write(folder.path(), name, &texts.join("\n---\n")).to_str().unwrap().to_owned()
}

#[test]
fn each_rule_has_a_test_that_fails_without_it() {
    std::thread::scope(|scope| {
        for pack in RulePack::all() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            scope.spawn(move || runtime.block_on(fails_without_each_rule(pack)));
        }
    });
}

async fn fails_without_each_rule(pack: &RulePack) {
    let folder = tempfile::tempdir().unwrap();
    let suite = write(folder.path(), "pack.test.yaml", &suite(pack, "rules.yaml"));
    let all = pack.rules();
    let test = async |rules: &[Value]| {
        file(&folder, "rules.yaml", rules);
        depguard(&["test", "-f", suite.to_str().unwrap()]).await
    };
    test(&all).await.well();
    for rule in &all {
        let others: Vec<_> = all.iter().filter(|other| *other != rule).cloned().collect();
        let without = test(&others).await;
        let (pack, rule) = (pack.name, &rule["metadata"]);
        assert_eq!(without.status, ExitStatus::Finding, "{pack}: no test needs {rule}: {}", without.err);
    }
}

#[test]
fn the_page_is_what_the_packs_say() {
    let (path, page) = (root().join("docs/packs.md"), page::page());
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == page, "docs/packs.md is out of date: run this test with DEPGUARD_WRITE=1");
}

/// Returns true if the pack says of some of its paths that no test holds them against definitions.
fn is_by_hand(pack: &RulePack) -> bool {
    pack.held_against.contains("by hand")
}

/// Returns the value of an environment variable, or says that a test does nothing without it.
fn given(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        // Written to the stream itself, the message is printed even if the test passes.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "packs are not held against definitions: {variable} names none").unwrap();
    }
    found
}

/// Returns a file with the definitions of each pack's product, if they are at hand.
fn definitions(folder: &TempDir) -> Vec<(&'static RulePack, String)> {
    let mut found = Vec::new();
    if let Some(openapi) = given(OPENAPI) {
        let openapi: Value = serde_json::from_slice(&std::fs::read(openapi).unwrap()).unwrap();
        let all = file(folder, "kubernetes.yaml", &openapi::definitions(&openapi));
        found.extend(
            RulePack::all().iter().filter(|pack| pack.name.starts_with("kubernetes-")).map(|pack| (pack, all.clone())),
        );
    }
    if let Some(crds) = given(CRDS) {
        for pack in RulePack::all() {
            let of_pack = crds.join(pack.name);
            if !pack.name.starts_with("kubernetes-") && of_pack.is_dir() {
                found.push((pack, of_pack.to_str().unwrap().to_owned()));
            } else {
                let is_said = pack.name.starts_with("kubernetes-") || is_by_hand(pack);
                assert!(is_said, "no definitions in {}, and heldAgainst has no \"by hand\"", of_pack.display());
            }
        }
    }
    found
}

#[tokio::test]
async fn the_paths_are_those_of_the_products_definitions() {
    let folder = tempfile::tempdir().unwrap();
    for (pack, definitions) in definitions(&folder) {
        let mut without_definition = false;
        for finding in held(&folder, pack, &definitions).await {
            without_definition |= is_about_the_dependent(&finding);
            let is_fine = finding["severity"] == "info" || is_about_the_dependent(&finding);
            assert!(is_fine, "{}: {finding:#}", pack.name);
        }
        assert_eq!(is_by_hand(pack), without_definition, "{}: {}", pack.name, pack.held_against);
    }
}

/// Holds the rules of a pack against definitions, and returns the findings.
async fn held(folder: &TempDir, pack: &RulePack, definitions: &str) -> Vec<Value> {
    let rules = file(folder, "rules.yaml", &pack_objects(pack));
    let ran = depguard(&["lint", "-f", &rules, "--schemas", definitions, "-o", "json"]).await;
    let mut report: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {}{}", ran.out, ran.err));
    serde_json::from_value(report["findings"].take()).unwrap()
}

/// Returns true if the definition of a rule's dependent is missing.
fn is_about_the_dependent(finding: &Value) -> bool {
    finding["code"] == "DG104" && finding["field"] == "spec.dependent"
}

#[tokio::test]
async fn each_pack_is_lint_clean_without_definitions() {
    for pack in RulePack::all() {
        let rules = root().join(format!("config/rules/{}.yaml", pack.name));
        let ran = depguard(&["lint", "-f", rules.to_str().unwrap(), "-o", "json"]).await.well();
        let report: Value = serde_json::from_str(&ran).unwrap();
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(report["summary"]["rules"], pack.rules().len(), "{}: {ran}", pack.name);
        // Only the schemas of Kubernetes' own kinds are known.
        let is_checked = !findings.iter().any(|finding| finding["code"] == "DG104");
        assert_eq!(is_checked, pack.name.starts_with("kubernetes-"), "{}: {ran}", pack.name);
        assert!(findings.iter().all(|finding| finding["severity"] == "info"), "{}: {ran}", pack.name);
    }
}

/// Returns the fields that a pack follows or leaves out; each counts for all fields below.
fn covered(pack: &RulePack) -> BTreeSet<(String, String)> {
    let left_out = pack.left_out.iter().map(|left| (left.resource.clone(), left.path.clone()));
    followed(pack).into_iter().chain(left_out).collect()
}

fn is_covered(covered: &BTreeSet<(String, String)>, resource: &str, path: &str) -> bool {
    covered.iter().any(|(of, whole)| {
        let below = path.strip_prefix(whole.as_str());
        of == resource && below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    })
}

#[tokio::test]
async fn each_field_that_seems_to_refer_is_in_a_rule_or_is_left_out_for_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut missing = Vec::new();
    for (pack, definitions) in definitions(&folder) {
        if pack.name.starts_with("kubernetes-") {
            continue;
        }
        let covered = covered(pack);
        for (resource, path) in suggested(&definitions, "low", &["references", "unresolved"]).await {
            if !is_covered(&covered, &resource, &path) {
                missing.push(format!("{}: {resource} {path}", pack.name));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns the fields that `suggest` takes for references and puts into these lists: `references` are those of the rules
/// that it proposes.
async fn suggested(definitions: &str, confidence: &str, lists: &[&str]) -> BTreeSet<(String, String)> {
    let args = ["suggest", "-f", definitions, "--min-confidence", confidence, "-o", "json"];
    let report: Value = serde_json::from_str(&depguard(&args).await.well()).unwrap();
    let mut found = BTreeSet::new();
    for proposal in report["proposals"].as_array().unwrap() {
        let resource = proposal["dependent"].as_str().unwrap().split('.').next().unwrap();
        for reference in lists.iter().flat_map(|list| proposal[list].as_array().unwrap()) {
            found.insert((resource.to_owned(), reference["path"].as_str().unwrap().to_owned()));
        }
    }
    found
}

/// Returns the fields by which a pack's rules refer.
fn followed(pack: &RulePack) -> BTreeSet<(String, String)> {
    let mut followed = BTreeSet::new();
    for rule in pack.rules() {
        let dependent = rule["spec"]["dependent"]["resource"].as_str().unwrap();
        for dependency in rule["spec"]["dependencies"].as_array().unwrap() {
            let paths = [&dependency["fieldRef"]["path"], &dependency["selectorRef"]["path"]];
            let paths = paths.into_iter().filter_map(Value::as_str);
            followed.extend(paths.map(|path| (dependent.to_owned(), path.to_owned())));
        }
    }
    followed
}

#[tokio::test]
async fn the_page_about_suggest_has_the_figures_of_the_packs() {
    const ENDS: [&str; 2] = ["<!-- packs: from a test -->\n", "<!-- packs: end -->"];
    let folder = tempfile::tempdir().unwrap();
    let definitions = definitions(&folder);
    if [OPENAPI, CRDS].map(given).contains(&None) {
        return;
    }
    let share = |part: usize, of: usize| format!("{part} of {of} ({} %)", (part * 100 + of / 2) / of.max(1));
    let mut table = "| pack | found | right |\n|---|---|---|\n".to_owned();
    let (mut all_found, mut all_expected, mut all_listed) = (0, 0, 0);
    // Several packs follow the fields of Kubernetes' own kinds, so these packs are measured together.
    let (kubernetes, others): (Vec<_>, Vec<_>) =
        definitions.iter().partition(|(pack, _)| pack.name.starts_with("kubernetes-"));
    for packs in [kubernetes].into_iter().chain(others.into_iter().map(|one| vec![one])) {
        let of_kubernetes = packs.len() > 1;
        let mut expected = BTreeSet::new();
        for (pack, definitions) in &packs {
            let findings = held(&folder, pack, definitions).await;
            let at_hand = |resource: &str| {
                let name = format!("/{}-{resource}", pack.name);
                let mut without = findings.iter().filter(|finding| is_about_the_dependent(finding));
                !without.any(|finding| finding["object"].as_str().unwrap().ends_with(&name))
            };
            expected.extend(followed(pack).into_iter().filter(|(resource, _)| at_hand(resource)));
        }
        let mut listed = suggested(&packs[0].1, "medium", &["references"]).await;
        listed.retain(|(resource, _)| !of_kubernetes || expected.iter().any(|(of, _)| of == resource));
        let found = expected.intersection(&listed).count();
        let names: Vec<_> = packs.iter().map(|(pack, _)| pack.name).collect();
        let (found_of, right) = (share(found, expected.len()), share(found, listed.len()));
        table += &format!("| {} | {found_of} | {right} |\n", names.join(", "));
        (all_found, all_expected, all_listed) =
            (all_found + found, all_expected + expected.len(), all_listed + listed.len());
    }
    table += &format!("| all | {} | {} |\n", share(all_found, all_expected), share(all_found, all_listed));
    let path = root().join("docs/suggest.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(ENDS[0]).unwrap();
    let (_, after) = rest.split_once(ENDS[1]).unwrap();
    let current = format!("{before}{}{table}{}{after}", ENDS[0], ENDS[1]);
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    assert!(
        page == current || std::env::var_os("DEPGUARD_WRITE").is_some(),
        "docs/suggest.md has other figures:\n{table}"
    );
}

#[tokio::test]
async fn packs_are_listed_shown_and_applied() {
    let bed = Bed::kubernetes().await;
    let names: Vec<_> = RulePack::all().iter().map(|pack| pack.name).collect();
    assert_eq!(depguard(&["rules", "list", "-o", "name"]).await.well().lines().collect::<Vec<_>>(), names);
    let shown = depguard(&["rules", "show", "flux", "openmcp"]).await.well();
    let file = |name: &str| std::fs::read_to_string(root().join(format!("config/rules/{name}.yaml"))).unwrap();
    assert_eq!(shown, format!("{}---\n{}", file("flux"), file("openmcp")));

    let pack = RulePack::by_name("openmcp").unwrap();
    let objects = pack_objects(pack).len();
    let crd = depguard_controller::manifests::crd();
    bed.endpoint().post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    for dry_run in ["--dry-run=client", "--dry-run=server"] {
        let tried = bed.depguard(&["rules", "apply", "openmcp", dry_run]).await.well();
        assert!(tried.lines().count() == objects && tried.lines().all(|line| line.contains(" created (")), "{tried}");
        assert!(bed.endpoint().list_json(rules).await.unwrap().items.is_empty());
    }
    for state in ["created", "unchanged"] {
        let applied = bed.depguard(&["rules", "apply", "openmcp"]).await.well();
        assert!(applied.lines().count() == objects && applied.lines().all(|line| line.ends_with(state)), "{applied}");
    }
    assert_eq!(bed.endpoint().list_json(rules).await.unwrap().items.len(), pack.rules().len());

    // The API server refuses two of the pack's rules: both are told, and nothing is applied.
    let workloads = RulePack::by_name("kubernetes-workloads").unwrap();
    let before = bed.endpoint().list_json(rules).await.unwrap().items.len();
    let faults = bed.testbed.faults();
    let refused = ["kubernetes-workloads-jobs", "kubernetes-workloads-pods"];
    let injected = refused.map(|name| {
        faults.inject(Fault::Forbidden, When::always().method("PATCH").path(&format!("dependencyrules/{name}")))
    });
    let ran = bed.depguard(&["rules", "apply", "kubernetes-workloads"]).await;
    assert!(ran.status == ExitStatus::Failure && ran.out.is_empty(), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("nothing was applied, for 2 reasons: "), "{}", ran.err);
    assert!(refused.iter().all(|name| ran.err.contains(&format!("/{name}: "))), "{}", ran.err);
    assert_eq!(bed.endpoint().list_json(rules).await.unwrap().items.len(), before);
    injected.into_iter().for_each(|fault| faults.clear(fault));
    bed.depguard(&["rules", "apply", "kubernetes-workloads"]).await.well();
    let pack_rules = pack.rules().len() + workloads.rules().len();

    for (args, says) in [
        (["rules", "apply", "kcp"], "pack kcp is for kcp, and this is kubernetes"),
        (["rules", "apply", "nothing"], "no such pack; there are kubernetes-workloads, "),
    ] {
        let ran = bed.depguard(&args).await;
        assert!(ran.status == ExitStatus::Failure && ran.err.contains(says), "{}", ran.err);
    }
    assert_eq!(bed.endpoint().list_json(rules).await.unwrap().items.len(), pack_rules);
}
