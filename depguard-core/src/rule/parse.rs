//! From what was written to a checked rule.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Dependent, Edge, ExportRef, FieldReference, Place, Reference, Rule, RuleError, RuleKey, Target, When};
use crate::api;
use crate::home::Home;
use crate::message::Message;
use crate::names::{
    ExportName, Group, GroupVersionResource, Kind, NameError, Namespace, Resource, Version, WorkspacePath,
};
use crate::path::FieldPath;
use crate::pattern::Pattern;
use crate::selector::Selector;

/// The most values that `when` may list.
const MOST_VALUES: usize = 64;
/// The most memory that the patterns of a rule may take together when they are compiled, in bytes.
const MOST_COMPILED: usize = 1 << 20;

pub(super) fn rule(home: Home, object: &Value) -> Result<Rule, RuleError> {
    let wire = api::DependencyRule::deserialize(object).map_err(|error| RuleError::Shape(error.to_string()))?;
    let key = RuleKey::of(home, &wire.metadata);
    if home == Home::Kcp && key.cluster.is_none() {
        return Err(RuleError::NoCluster);
    }
    let mut budget = Budget::default();
    let edges = (wire.spec.dependencies.iter().enumerate())
        .map(|(index, dependency)| edge(home, index, dependency, &mut budget))
        .collect::<Result<_, _>>()?;
    Ok(Rule {
        key,
        generation: wire.metadata.generation,
        failure_policy: wire.spec.failure_policy.unwrap_or_default(),
        dependent: dependent(home, &wire.spec.dependent)?,
        edges,
    })
}

fn dependent(home: Home, dependent: &api::Dependent) -> Result<Dependent, RuleError> {
    const EXPORT: &str = "spec.dependent.apiExportName";
    if let Some(old) = &dependent.api_export_ref {
        return Err(RuleError::OldExportRef { name: old.name.clone() });
    }
    let export =
        (dependent.api_export_name.as_deref()).map(|name| named(EXPORT, ExportName::parse(name))).transpose()?;
    if export.is_some() && home == Home::Kubernetes {
        return Err(RuleError::ExportInKubernetes { field: EXPORT.to_owned() });
    }
    let at = |field: &str| format!("spec.dependent.{field}");
    let gvr = gvr(&at, &dependent.group, &dependent.version, &dependent.resource)?;
    if export.is_some() && gvr.group.is_core() {
        return Err(RuleError::CoreGroupExported { field: at("group"), export: EXPORT });
    }
    let selector = dependent.selector.as_ref().map(Selector::parse).transpose();
    Ok(Dependent {
        export,
        gvr,
        kind: named(&at("kind"), Kind::parse(&dependent.kind))?,
        selector: selector.map_err(|error| RuleError::Selector { field: at("selector"), error })?,
    })
}

// === A dependency ===

fn edge<'w>(
    home: Home,
    index: usize,
    dependency: &'w api::Dependency,
    budget: &mut Budget<'w>,
) -> Result<Edge, RuleError> {
    let at = |field: &str| format!("spec.dependencies[{index}].{field}");
    let target = target(home, &at, dependency)?;
    let reference = reference(&at, dependency, &target, budget)?;
    let when = dependency.when.as_ref().map(|written| when(&at, written)).transpose()?;
    let edge = Edge {
        index,
        target,
        reference,
        when,
        on_delete: dependency.on_delete.unwrap_or_default(),
        owned_dependents: dependency.owned_dependents.unwrap_or_default(),
        message: (dependency.message.as_deref().map(Message::parse).transpose())
            .map_err(|error| RuleError::Message { field: at("message"), error })?,
    };
    for (field, path) in edge.paths() {
        if !edge.reference.goes_with(path) {
            let own = edge.reference.path();
            let why = format!(
                "`{path}` has a `[*]` that `{own}` does not share: for each reference there must be one value at most"
            );
            return Err(RuleError::Combination { field: at(field), why });
        }
    }
    Ok(edge)
}

fn target(home: Home, at: &dyn Fn(&str) -> String, dependency: &api::Dependency) -> Result<Target, RuleError> {
    let export = match &dependency.api_export_ref {
        None => None,
        Some(_) if home == Home::Kubernetes => {
            return Err(RuleError::ExportInKubernetes { field: at("apiExportRef") });
        }
        Some(export) => Some(ExportRef {
            path: named(&at("apiExportRef.path"), WorkspacePath::parse(&export.path))?,
            name: named(&at("apiExportRef.name"), ExportName::parse(&export.name))?,
        }),
    };
    let gvr = gvr(at, &dependency.group, &dependency.version, &dependency.resource)?;
    if export.is_some() && gvr.group.is_core() {
        return Err(RuleError::CoreGroupExported { field: at("group"), export: "apiExportRef" });
    }
    let kind = dependency.kind.as_deref().map(|kind| named(&at("kind"), Kind::parse(kind))).transpose()?;
    Ok(Target { export, gvr, kind })
}

fn reference<'w>(
    at: &dyn Fn(&str) -> String,
    dependency: &'w api::Dependency,
    target: &Target,
    budget: &mut Budget<'w>,
) -> Result<Reference, RuleError> {
    match (&dependency.field_ref, &dependency.selector_ref) {
        (Some(field), None) => {
            let field = field_reference(&|name| at(&format!("fieldRef.{name}")), field, budget)?;
            if field.kind.is_some() && target.kind.is_none() {
                return Err(combination(at("kind"), "is missing: fieldRef.kindPath is compared with it"));
            }
            Ok(Reference::Field(Box::new(field)))
        }
        (None, Some(selector)) => selector_reference(&|name| at(&format!("selectorRef.{name}")), selector),
        (None, None) => Err(combination(at("fieldRef"), "is missing: write it or selectorRef")),
        (Some(_), Some(_)) => Err(combination(at("selectorRef"), "stands beside fieldRef: leave one of them out")),
    }
}

fn selector_reference(at: &dyn Fn(&str) -> String, written: &api::SelectorRef) -> Result<Reference, RuleError> {
    match (&written.path, &written.selector) {
        (Some(written), None) => Ok(Reference::Selector(path(&at("path"), written)?)),
        (None, Some(selector)) => match Selector::parse(selector) {
            Ok(selector) => Ok(Reference::Selected(selector)),
            Err(error) => Err(RuleError::Selector { field: at("selector"), error }),
        },
        (None, None) => Err(combination(at("path"), "is missing: write it or selector")),
        (Some(_), Some(_)) => Err(combination(at("selector"), "stands beside path: leave one of them out")),
    }
}

fn field_reference<'w>(
    at: &dyn Fn(&str) -> String,
    field: &'w api::FieldRef,
    budget: &mut Budget<'w>,
) -> Result<FieldReference, RuleError> {
    let optional =
        |name: &str, written: &Option<String>| written.as_deref().map(|text| path(&at(name), text)).transpose();
    if field.replacement.is_some() && field.pattern.is_none() {
        return Err(combination(at("replacement"), "stands without pattern: write the pattern that it is made of"));
    }
    let mut pattern = |name: &str, pattern: &'w Option<String>, replacement: Option<&str>| {
        pattern.as_deref().map(|text| budget.pattern(&at(name), text, replacement)).transpose()
    };
    let namespace_path = optional("namespacePath", &field.namespace_path)?;
    let namespace_pattern = pattern("namespacePattern", &field.namespace_pattern, None)?;
    let place = match &field.namespace {
        Some(_) if namespace_path.is_some() || namespace_pattern.is_some() => {
            let why = "stands beside namespacePath or namespacePattern: leave one of them out";
            return Err(combination(at("namespace"), why));
        }
        Some(fixed) => Place::Fixed(named(&at("namespace"), Namespace::parse(fixed))?),
        None if namespace_path.is_none() && namespace_pattern.is_none() => Place::Own,
        None => Place::Said { path: namespace_path, pattern: namespace_pattern },
    };
    Ok(FieldReference {
        path: path(&at("path"), &field.path)?,
        keys: field.keys,
        pattern: pattern("pattern", &field.pattern, field.replacement.as_deref())?,
        place,
        group: optional("groupPath", &field.group_path)?,
        kind: optional("kindPath", &field.kind_path)?,
        api_version: optional("apiVersionPath", &field.api_version_path)?,
        uid: optional("uidPath", &field.uid_path)?,
    })
}

/// What the patterns of a rule may need altogether when they are compiled. Each text counts once.
#[derive(Default)]
struct Budget<'w> {
    texts: HashSet<&'w str>,
    bytes: usize,
}

impl<'w> Budget<'w> {
    fn pattern(&mut self, field: &str, text: &'w str, replacement: Option<&str>) -> Result<Pattern, RuleError> {
        let pattern =
            Pattern::parse(text, replacement).map_err(|error| RuleError::Pattern { field: field.to_owned(), error })?;
        if self.texts.insert(text) {
            self.bytes = self.bytes.saturating_add(pattern.size());
        }
        if self.bytes > MOST_COMPILED {
            return Err(RuleError::Patterns { field: field.to_owned(), most: MOST_COMPILED });
        }
        Ok(pattern)
    }
}

fn when(at: &dyn Fn(&str) -> String, when: &api::When) -> Result<When, RuleError> {
    if when.r#in.is_empty() {
        return Err(combination(at("when.in"), "is empty: the reference would never count; name a value"));
    }
    if when.r#in.len() > MOST_VALUES {
        return Err(combination(at("when.in"), &format!("has more than {MOST_VALUES} values: name fewer")));
    }
    Ok(When { path: path(&at("when.path"), &when.path)?, values: when.r#in.clone() })
}

// === Parts ===

fn gvr(
    at: &dyn Fn(&str) -> String,
    group: &str,
    version: &str,
    resource: &str,
) -> Result<GroupVersionResource, RuleError> {
    Ok(GroupVersionResource {
        group: named(&at("group"), Group::parse(group))?,
        version: named(&at("version"), Version::parse(version))?,
        resource: named(&at("resource"), Resource::parse(resource))?,
    })
}

fn named<T>(field: &str, parsed: Result<T, NameError>) -> Result<T, RuleError> {
    parsed.map_err(|error| RuleError::Name { field: field.to_owned(), error })
}

fn path(field: &str, written: &str) -> Result<FieldPath, RuleError> {
    FieldPath::parse(written).map_err(|error| RuleError::Path { field: field.to_owned(), error })
}

fn combination(field: String, why: &str) -> RuleError {
    RuleError::Combination { field, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_rule(patterns: impl IntoIterator<Item = String>) -> Value {
        let dependency = |pattern: String| {
            json!({
                "group": "network.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpc", "pattern": pattern, "namespacePattern": pattern},
            })
        };
        let dependencies: Vec<_> = patterns.into_iter().map(dependency).collect();
        json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": dependencies,
        }})
    }

    #[test]
    fn the_patterns_of_a_rule_have_a_budget_and_equal_ones_count_once() {
        let equal = mk_rule((0..1000).map(|_| r"^(\w{1,63})/(\w{1,63})$".to_owned()));
        assert_eq!(rule(Home::Kubernetes, &equal).unwrap().edges.len(), 1000);

        let other = mk_rule((0..1000).map(|n| format!(r"^{n}/(\w{{1,63}})/(\w{{1,63}})$")));
        let error = rule(Home::Kubernetes, &other).unwrap_err();
        assert!(matches!(error, RuleError::Patterns { .. }), "{error}");
        assert!(error.field().unwrap().starts_with("spec.dependencies[") && error.to_string().contains("1024 KiB"));
    }
}
