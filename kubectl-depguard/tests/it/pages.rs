//! Commands of pages that no walk runs: docs/faq.md, docs/suggest.md and docs/packs.md. The pages that a user walks through
//! from beginning to end are in e2e/tests/guide.

use std::path::{Path, PathBuf};

use depguard_controller::manifests;
use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::bed::Bed;
use crate::references::scene::Scene;
use crate::tool::{depguard, write};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Returns the `kubectl depguard` commands of a page as words, without comments and what reads their output.
fn commands(page: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    let typed = lines.filter_map(|line| line.strip_prefix("$ kubectl depguard ").map(str::to_owned));
    typed
        .map(|line| {
            let line = line.split(" #").next().unwrap().split(" | ").next().unwrap();
            line.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
        })
        .collect()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn each_command_of_the_pages_can_be_typed() {
    let pages = ["ci.md", "faq.md", "suggest.md", "lint.md", "questions.md", "packs.md"].map(|name| docs().join(name));
    let mut count = 0;
    for page in pages {
        for command in commands(&page) {
            let typed = [vec!["kubectl-depguard".to_owned()], command].concat();
            let parsed = kubectl_depguard::command().try_get_matches_from(&typed);
            assert!(parsed.is_ok(), "{}: {typed:?}: {}", page.display(), parsed.unwrap_err());
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} commands");
}

#[tokio::test]
async fn the_commands_of_the_packs_page_apply_the_packs() {
    let bed = Bed::kubernetes().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    bed.endpoint().post_json(definitions, &manifests::crd()).await.unwrap();
    for command in commands(&docs().join("packs.md")) {
        let args: Vec<_> = command.iter().map(String::as_str).collect();
        let ran = bed.depguard(&args).await;
        match args[..] {
            // No controller runs on this testbed, which is what `status` finds.
            ["status"] => {
                assert_eq!(ran.status, ExitStatus::Finding, "{}", ran.err);
                assert!(ran.out.contains("flux-kustomizations"), "{}{}", ran.out, ran.err);
            }
            // The pack for kcp says that it is not for this cluster.
            ["rules", "apply", "kcp"] => assert!(ran.err.contains("pack kcp is for kcp"), "{}", ran.err),
            _ => assert!(!ran.well().is_empty(), "{args:?} prints nothing"),
        }
    }
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    let stored = bed.endpoint().list_json(rules).await.unwrap().items.len();
    let packs = depguard_controller::packs::RulePack::all().iter().filter(|pack| pack.name != "kcp");
    assert_eq!(stored, packs.map(|pack| pack.rules().len()).sum::<usize>());
}

#[tokio::test]
async fn the_commands_of_the_page_about_suggest_print_rules() {
    let folder = tempfile::tempdir().unwrap();
    let crds = write(folder.path(), "crds.yaml", include_str!("../../../examples/guide/crds.yaml"));
    let scene = Scene::kubernetes().await;
    let page = docs().join("suggest.md");
    let commands = commands(&page);
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let args: Vec<_> =
            command.iter().map(|word| if word == "crds/" { crds.to_str().unwrap() } else { word.as_str() }).collect();
        let is_live = args.contains(&"--live");
        let ran = if is_live { scene.run(&args).await } else { depguard(&args).await };
        let is_about_definitions = args.contains(&"--definitions");
        let out = ran.well();
        // The kinds of the scene have no fields, so that only their definitions have rules.
        assert_eq!(out.contains("vpcs"), !is_live || is_about_definitions, "{args:?}: {out}");
        assert_eq!(out.contains("kind: ClusterRole"), is_about_definitions, "{args:?}: {out}");
        if is_about_definitions {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&out).unwrap();
            let text = std::fs::read_to_string(&page).unwrap();
            let shown = text.split("```yaml\n---\n").nth(1).unwrap().split("\n---").next().unwrap();
            let shown: Value = serde_saphyr::from_str(shown).unwrap();
            assert!(objects.contains(&shown), "the page shows {shown}, and {args:?} prints {out}");
        }
    }
}

#[tokio::test]
async fn the_commands_of_the_faq_say_what_it_says() {
    let scene = Scene::kubernetes().await;
    scene.vpc("default", "shop").await;
    scene.vm("default", "web", &["shop"]).await;
    let commands = commands(&docs().join("faq.md"));
    let expected = [
        ("why vpc shop", ExitStatus::Finding, "VirtualMachine/web"),
        ("impact vpc shop", ExitStatus::Well, "VirtualMachine/default/web"),
        // Nobody is there to be asked.
        ("order default --delete", ExitStatus::Failure, "--yes"),
        ("rules apply kubernetes-workloads", ExitStatus::Well, "created"),
        ("suggest --definitions --live", ExitStatus::Well, "value: vpcs.network.example.com"),
        ("status", ExitStatus::Finding, "machines"),
    ];
    for command in commands {
        let (_, status, says) = expected
            .iter()
            .find(|(line, ..)| words(line) == command)
            .unwrap_or_else(|| panic!("the page has another command: {command:?}"));
        let args: Vec<_> = command.iter().map(String::as_str).collect();
        let ran = scene.run(&args).await;
        assert_eq!(ran.status, *status, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(says) || ran.err.contains(says), "{args:?}: {}{}", ran.out, ran.err);
    }
}
