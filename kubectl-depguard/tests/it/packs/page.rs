//! Pages of the packs, as docs/packs has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use depguard_controller::packs::{LeftOut, RulePack};
use depguard_core::ControlPlane;
use serde_json::Value;

const HEADER: &str = "<!-- Generated from the packs: `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it packs` \
                      writes it anew. -->\n\n";

/// Returns the list of all packs.
pub(crate) fn overview() -> String {
    let mut page = format!(
        "{HEADER}# Packs of ready-made rules\n\n\
         A pack has rules about the kinds of one product. Each file of [config/rules](../../config/rules) is a pack. The\n\
         command has them all:\n\n\
         ```console\n\
         $ kubectl depguard rules list\n\
         $ kubectl depguard rules show flux\n\
         $ kubectl depguard rules apply kubernetes-workloads flux\n\
         $ kubectl depguard status\n\
         ```\n\n\
         The name of each rule begins with that of its pack. `rules apply` deletes a rule of a former name once the\n\
         new one is applied, unless somebody else wrote or changed it ([operations.md](../operations.md#upgrade)).\n\n\
         By default a pack leaves some deletions to Kubernetes or to another rule, and its page says which. With `--strict`,\n\
         `rules show`, `rules apply` and `depguard-controller manifests --rules` take rules that refuse them. A note of\n\
         `rules apply` names each reference for which a stored rule refuses more than the one that takes its place.\n\n\
         A rule about kinds that the cluster does not have refuses nothing until they exist. `lint --live` shows which\n\
         fields could be selectable, so that a deletion reads fewer objects. The suites in\n\
         [examples/suites/packs](../../examples/suites/packs) show for each rule a deletion that is refused and one that is\n\
         allowed. [kubernetes-coverage.md](kubernetes-coverage.md) says of each field of Kubernetes' own kinds that is named\n\
         like a reference which rule follows it, or why none does.\n\n\
         | pack | rules | references | fields left out |\n|---|---|---|---|\n"
    );
    for pack in RulePack::all() {
        let rules = pack.rules();
        let references: usize = rules.iter().map(|rule| references(pack, rule).len()).sum();
        let _ = writeln!(
            page,
            "| [{name}]({name}.md) | {} | {references} | {} |",
            rules.len(),
            pack.left_out.len(),
            name = pack.name
        );
    }
    page
}

/// Returns the page of a pack.
pub(crate) fn page(pack: &'static RulePack) -> String {
    let RulePack { name, control_plane, protects, notes, by_default, held_against, left_out, .. } = pack;
    let rules = pack.rules();
    let apply = match control_plane {
        ControlPlane::Kubernetes => format!("$ kubectl depguard rules apply {name}"),
        ControlPlane::Kcp => format!("$ kubectl depguard rules apply {name}      # in the workspace of each provider"),
    };
    let mut page = format!(
        "{HEADER}# {name}\n\nThis pack {protects}.\n\n```console\n{apply}\n```\n\nThe paths were held against {held_against}.\n"
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
        let _ = writeln!(
            page,
            "\n## Default and strict rules\n\nThe strict rules are those of `kubectl depguard rules apply --strict {name}`. \
             The default ones let more go:\n"
        );
        by_default.iter().for_each(|sentence| page.push_str(&format!("- {sentence}\n")));
    }
    page.push_str("\n## References\n\n| dependent | field | target |\n|---|---|---|\n");
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rule in &rules {
        let dependent = &rule["spec"]["dependent"];
        for (dependency, by_default) in references(pack, rule) {
            let (of, target, field) = (kind(dependent), kind(&dependency), field(&dependency));
            let _ = writeln!(page, "| {of} | {field} | {target}{}{by_default} |", condition(&dependency));
            let lists = lists.entry(target).or_default();
            if !lists.contains(&resource(dependent)) {
                lists.push(resource(dependent));
            }
        }
    }
    let makes: Vec<_> = pack.makes().flat_map(|rule| made(&rule["spec"])).collect();
    if !makes.is_empty() {
        page.push_str(
            "\n## Made by others\n\n`dangling -f` and `trace -f` do not call these objects missing where their maker is among the \
             files, `unused` does not\nlist them while it exists, and `order` lets the maker go after the users:\n\n\
             | maker | object | name |\n|---|---|---|\n",
        );
        page.push_str(&makes.concat());
    }
    page.push_str(
        "\n## Cost\n\nA deletion costs one list of each of these kinds:\n\n| deletion of | lists |\n|---|---|\n",
    );
    for (target, dependents) in lists {
        let _ = writeln!(page, "| {target} | {} |", dependents.join(", "));
    }
    if !left_out.is_empty() {
        page.push_str("\n## Left out\n\nThese fields name an object, and no rule follows them:\n\n| kind | field | reason |\n|---|---|---|\n");
        for LeftOut { resource, path, reason, .. } in left_out {
            let _ = writeln!(page, "| {resource} | `{path}` | {} |", reason.replace('|', "\\|"));
        }
    }
    page
}

/// Returns a line of a table for each object that a maker makes.
fn made(spec: &Value) -> Vec<String> {
    let maker = kind(&spec["dependent"]);
    let line = |dependency| format!("| {maker} | {} | {} |\n", kind(dependency), field(dependency));
    list(&spec["dependencies"]).map(line).collect()
}

/// Returns the dependencies of the strict rule of this name, each with what the default ones let go, as the end of a cell;
/// the dependencies of the default rule if there is no strict one.
fn references(pack: &'static RulePack, rule: &Value) -> Vec<(Value, String)> {
    let strict = pack.strict().rules().into_iter().find(|strict| strict["metadata"] == rule["metadata"]);
    let mut written: Vec<Value> = list(&strict.as_ref().unwrap_or(rule)["spec"]["dependencies"]).cloned().collect();
    if strict.is_none() {
        written.retain(|dependency| dependency["optional"] != true);
        written.iter_mut().for_each(|dependency| drop(dependency.as_object_mut().unwrap().remove("when")));
        written.dedup();
    }
    let described = |dependency: Value| {
        let is_of_it = |by_default: &&Value| {
            ["fieldRef", "selectorRef", "resource"].iter().all(|field| by_default[field] == dependency[field])
                && (dependency["when"].is_null() || by_default["when"]["path"] == dependency["when"]["path"])
        };
        let (optional, required): (Vec<_>, Vec<_>) =
            list(&rule["spec"]["dependencies"]).filter(is_of_it).partition(|by_default| by_default["optional"] == true);
        let mut said = String::new();
        if required.iter().all(|by_default| by_default["onDelete"] == "Warn") {
            said += "; by default only a warning";
        }
        if required.iter().any(|by_default| by_default["when"].to_string().contains("ownerReferences")) {
            said += &format!("; by default not for each {}", kind(&rule["spec"]["dependent"]));
        }
        if let Some(optional) = optional.first() {
            let warned = if optional["onDelete"] == "Warn" { ", and by default only a warning" } else { "" };
            said += &format!("; not dangling where it is optional{warned}");
        }
        (dependency, said)
    };
    written.into_iter().map(described).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn kind(of: &Value) -> String {
    of["kind"].as_str().unwrap_or_default().to_owned()
}

fn resource(of: &Value) -> String {
    of["resource"].as_str().unwrap_or_default().to_owned()
}

/// Returns the field that refers, as a cell.
fn field(dependency: &Value) -> String {
    let (by_name, by_labels) = (&dependency["fieldRef"], &dependency["selectorRef"]);
    match [&by_name["path"], &by_name["value"], &by_labels["path"]].map(Value::as_str) {
        [Some(path), ..] if by_name["keys"] == true => format!("keys of `{path}`"),
        [Some(path), ..] => format!("`{path}`"),
        [_, Some(value), _] => format!("always `{value}`"),
        [.., Some(path)] => format!("labels in `{path}`"),
        _ => "labels in the rule".to_owned(),
    }
}

/// Returns the names that don't count and the condition on which the reference counts, as the end of a cell.
fn condition(dependency: &Value) -> String {
    let when = &dependency["when"];
    let excluded: String =
        list(&dependency["excludeNames"]).filter_map(Value::as_str).map(|name| format!(", but not `{name}`")).collect();
    let warns = if dependency["onDelete"] == "Warn" { ", with a warning only" } else { "" };
    let condition = match when["path"].as_str() {
        Some(path) => {
            let values: Vec<_> = list(&when["in"]).filter_map(Value::as_str).collect();
            format!(", while `{path}` is {}", values.join(" or "))
        }
        None => String::new(),
    };
    format!("{excluded}{condition}{warns}")
}
