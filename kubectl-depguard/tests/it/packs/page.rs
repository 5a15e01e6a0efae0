//! Page of the packs, docs/packs.md.

use std::fmt::Write as _;

use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use serde_json::Value;

const HEADER: &str = "<!-- Generated from the packs: `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it packs` \
                      writes it anew. -->\n\n";

/// Returns the page.
pub(crate) fn page() -> String {
    let mut page = format!(
        "{HEADER}# Packs of ready-made rules\n\n\
         A pack has rules about the kinds of one product. Each file of [config/rules](../config/rules) is a pack. The\n\
         command has them all:\n\n\
         ```console\n\
         $ kubectl depguard rules list\n\
         $ kubectl depguard rules show flux\n\
         $ kubectl depguard rules apply kubernetes-workloads flux\n\
         $ kubectl depguard status\n\
         ```\n\n\
         The name of each rule begins with that of its pack. `rules apply` deletes a rule of a former name once the\n\
         new one is applied, unless somebody else wrote or changed it ([operations.md](operations.md#upgrade)).\n\n\
         By default a pack leaves some deletions to Kubernetes or to another rule, and this page says which. With `--strict`,\n\
         `rules show`, `rules apply` and `depguard-controller manifests --rules` take rules that refuse them. A note of\n\
         `rules apply` names each reference for which a stored rule refuses more than the one that takes its place.\n\n\
         A rule about kinds that the cluster does not have refuses nothing until they exist. A deletion costs one list of each\n\
         kind whose rule names the target; `lint --live` shows which fields could be selectable, so that it reads fewer objects.\n\
         The suites in [examples/suites/packs](../examples/suites/packs) show for each rule a deletion that is refused and one\n\
         that is allowed. [The packs themselves](../depguard-controller/packs) say under `leftOut` why no rule follows a field\n\
         that names an object; a test fails on a field of Kubernetes' own kinds that is named like a reference and is neither\n\
         in a rule nor left out.\n\n\
         `dangling -f` and `trace -f` do not call objects missing that an object among the files makes (`makes` in a pack), `unused`\n\
         does not list them while their maker exists, and `order` lets the maker go after the users.\n\n\
         | pack | rules | references | fields left out |\n|---|---|---|---|\n"
    );
    for pack in RulePack::all() {
        let rules = pack.strict().rules();
        let references: usize = rules.iter().map(|rule| list(&rule["spec"]["dependencies"]).count()).sum();
        let name = pack.name;
        let _ = writeln!(
            page,
            "| [{name}](#{}) | {} | {references} | {} |",
            anchor(name),
            rules.len(),
            pack.left_out.len()
        );
    }
    RulePack::all().iter().for_each(|pack| section(pack, &mut page));
    page
}

/// Returns the anchor of a pack's heading.
fn anchor(name: &str) -> String {
    name.replace('.', "")
}

/// Writes the section of a pack.
fn section(pack: &'static RulePack, page: &mut String) {
    let RulePack { name, control_plane, protects, notes, by_default, held_against, .. } = pack;
    let apply = match control_plane {
        ControlPlane::Kubernetes => format!("$ kubectl depguard rules apply {name}"),
        ControlPlane::Kcp => format!("$ kubectl depguard rules apply {name}      # in the workspace of each provider"),
    };
    let _ = write!(
        page,
        "\n## {name}\n\nThis pack {protects}.\n\n```console\n{apply}\n```\n\nThe paths were held against {held_against}.\n"
    );
    for note in notes {
        let _ = write!(page, "\n- {note}");
    }
    if !notes.is_empty() {
        page.push('\n');
    }
    let former: Vec<_> =
        pack.formerly().map(|(name, rule)| format!("`{name}` is {} now", rule["metadata"]["name"])).collect();
    if !former.is_empty() {
        let _ =
            writeln!(page, "\nRules with another name in a former version: {}.", former.join(", ").replace('"', "`"));
    }
    if !by_default.is_empty() {
        page.push_str("\nThe default rules let more go than the strict ones:\n\n");
        by_default.iter().for_each(|sentence| page.push_str(&format!("- {sentence}\n")));
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
