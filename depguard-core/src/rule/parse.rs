//! Parser of rules: from the wire type to a checked rule.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    Dependent, Edge, ExportRef, FieldCondition, FieldReference, FixedReference, Place, Reference, Rule, RuleError,
    RuleKey, SelectorReference, Target, ValueSource, missing_field,
};
use crate::model::api::{self, OnMissing, Scalar};
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::FieldPath;
use crate::model::label_selector::Selector;
use crate::model::message_template::Message;
use crate::model::name_pattern::Pattern;
use crate::model::names::{
    ExportName, Group, GroupVersionResource, Kind, NameError, Namespace, ObjectName, Resource, Separator, Version,
    WorkspacePath,
};

/// The most values that a condition may list.
const MAX_VALUES: usize = 64;
/// Maximum number of names that a dependency may exclude.
const MAX_NAMES: usize = 32;
/// Maximum number of fields of a selector that may narrow it.
const MAX_FIELDS: usize = 16;
/// The most memory that the patterns of a rule may take together when they are compiled, in bytes.
const MAX_COMPILED: usize = 1 << 20;

pub(super) fn rule(control_plane: ControlPlane, object: &Value) -> Result<Rule, RuleError> {
    let wire = api::DependencyRule::deserialize(object)
        .map_err(|error| missing_field::find(object).unwrap_or_else(|| RuleError::Shape(error.to_string())))?;
    let key = RuleKey::from_metadata(control_plane, &wire.metadata);
    if control_plane == ControlPlane::Kcp && key.cluster.is_none() {
        return Err(RuleError::NoCluster);
    }
    let api::DependencyRuleSpec { failure_policy, dependent: holder, dependencies } = &wire.spec;
    let mut budget = Budget::default();
    let edges = (dependencies.iter().enumerate())
        .map(|(index, dependency)| edge(control_plane, index, dependency, &mut budget))
        .collect::<Result<_, _>>()?;
    Ok(Rule {
        key,
        failure_policy: failure_policy.unwrap_or_default(),
        dependent: dependent(control_plane, holder)?,
        edges,
    })
}

fn dependent(control_plane: ControlPlane, dependent: &api::Dependent) -> Result<Dependent, RuleError> {
    const EXPORT: &str = "spec.dependent.apiExportName";
    let api::Dependent { api_export_name, api_export_ref, group, version, kind, resource, selector } = dependent;
    if let Some(old) = api_export_ref {
        return Err(RuleError::OldExportRef { name: old.name.clone() });
    }
    let export = api_export_name.as_deref().map(|name| named(EXPORT, ExportName::parse(name))).transpose()?;
    if export.is_some() && control_plane == ControlPlane::Kubernetes {
        return Err(RuleError::ExportInKubernetes { field: EXPORT.to_owned() });
    }
    let at = |field: &str| format!("spec.dependent.{field}");
    let gvr = gvr(&at, group, version, resource)?;
    if export.is_some() && gvr.group.is_core() {
        return Err(RuleError::CoreGroupExported { field: at("group"), export: EXPORT });
    }
    let selector = selector.as_ref().map(Selector::parse).transpose();
    Ok(Dependent {
        export,
        gvr,
        kind: named(&at("kind"), Kind::parse(kind))?,
        selector: selector.map_err(|error| RuleError::Selector { field: at("selector"), error })?,
    })
}

// === A dependency ===

fn edge<'w>(
    control_plane: ControlPlane,
    index: usize,
    dependency: &'w api::Dependency,
    budget: &mut Budget<'w>,
) -> Result<Edge, RuleError> {
    let at = |field: &str| format!("spec.dependencies[{index}].{field}");
    // A field that is not read here, in `target` or in `reference` would be accepted and have no effect.
    let api::Dependency {
        api_export_ref: _,
        group: _,
        version: _,
        resource: _,
        kind: _,
        field_ref: _,
        selector_ref: _,
        when: written,
        optional,
        exclude_names,
        on_delete,
        owned_dependents,
        on_missing,
        message,
    } = dependency;
    let target = target(control_plane, &at, dependency)?;
    let reference = reference(&at, dependency, &target, budget)?;
    let when = written.as_ref().map_or_else(|| Ok(Vec::new()), |written| when(&at, written))?;
    let edge = Edge {
        index,
        target,
        reference,
        when,
        optional: *optional,
        exclude_names: names(&at, exclude_names.as_ref())?,
        on_delete: on_delete.unwrap_or_default(),
        owned_dependents: owned_dependents.unwrap_or_default(),
        on_missing: on_missing.unwrap_or_default(),
        message: (message.as_deref().map(Message::parse).transpose())
            .map_err(|error| RuleError::Message { field: at("message"), error })?,
    };
    if edge.on_missing != OnMissing::Ignore && edge.reference.selects() {
        let why = "can't be combined with selectorRef: a selector may select nothing; leave one of them out";
        return Err(combination(at("onMissing"), why));
    }
    if edge.on_missing != OnMissing::Ignore && edge.optional {
        let why = "can't be combined with optional: such a reference may point to nothing; leave one of them out";
        return Err(combination(at("onMissing"), why));
    }
    if !edge.exclude_names.is_empty() && matches!(edge.reference, Reference::Fixed(_)) {
        let why = "can't be combined with fieldRef.value, the one name that counts; leave one of them out";
        return Err(combination(at("excludeNames"), why));
    }
    for (field, path) in edge.paths() {
        if !edge.reference.goes_with(path) {
            let own = edge.reference.path();
            let why = format!("`{path}` has a `[*]` that `{own}` lacks: each reference may have at most one value");
            return Err(RuleError::Combination { field: at(field), why });
        }
    }
    Ok(edge)
}

/// Parses the names of targets to which no reference counts.
fn names(at: &dyn Fn(&str) -> String, written: Option<&Vec<String>>) -> Result<Vec<ObjectName>, RuleError> {
    let Some(written) = written else { return Ok(Vec::new()) };
    if written.is_empty() {
        return Err(combination(at("excludeNames"), "is empty: it would exclude nothing; name an object"));
    }
    if written.len() > MAX_NAMES {
        return Err(combination(at("excludeNames"), &format!("has more than {MAX_NAMES} names: name fewer")));
    }
    let names = written.iter().enumerate();
    names.map(|(index, name)| named(&at(&format!("excludeNames[{index}]")), ObjectName::parse(name))).collect()
}

fn target(
    control_plane: ControlPlane,
    at: &dyn Fn(&str) -> String,
    dependency: &api::Dependency,
) -> Result<Target, RuleError> {
    let export = match &dependency.api_export_ref {
        None => None,
        Some(_) if control_plane == ControlPlane::Kubernetes => {
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
            let reference = FieldRefParser { at: &|name| at(&format!("fieldRef.{name}")), budget }.reference(field)?;
            if let Reference::Field(field) = &reference
                && field.kind.is_some()
                && target.kind.is_none()
            {
                let why = "is missing: depguard compares fieldRef.kindPath or fieldRef.kindPattern with it";
                return Err(combination(at("kind"), why));
            }
            Ok(reference)
        }
        (None, Some(selector)) => selector_reference(&|name| at(&format!("selectorRef.{name}")), selector),
        (None, None) => Err(combination(at("fieldRef"), "is missing: write it or selectorRef")),
        (Some(_), Some(_)) => {
            Err(combination(at("selectorRef"), "can't be combined with fieldRef: leave one of them out"))
        }
    }
}

fn selector_reference(at: &dyn Fn(&str) -> String, written: &api::SelectorRef) -> Result<Reference, RuleError> {
    let api::SelectorRef { path: written, narrowed_by, selector } = written;
    if narrowed_by.as_ref().is_some_and(Vec::is_empty) {
        return Err(combination(at("narrowedBy"), "is empty: it would pass over nothing; name a field"));
    }
    let narrowed_by = narrowed_by.as_deref().unwrap_or_default();
    if narrowed_by.len() > MAX_FIELDS {
        return Err(combination(at("narrowedBy"), &format!("has more than {MAX_FIELDS} fields: name fewer")));
    }
    if let Some(own) = narrowed_by.iter().find(|name| Selector::FIELDS.contains(&name.as_str())) {
        return Err(combination(at("narrowedBy"), &format!("has `{own}`, which is read itself: leave it out")));
    }
    match (written, selector) {
        (Some(written), None) => Ok(Reference::Selector(SelectorReference {
            path: path(&at("path"), written)?,
            narrowed_by: narrowed_by.to_vec(),
        })),
        (None, Some(_)) if !narrowed_by.is_empty() => {
            Err(combination(at("narrowedBy"), "can't be combined with selector: leave one of them out"))
        }
        (None, Some(selector)) => match Selector::parse(selector) {
            Ok(selector) => Ok(Reference::Selected(selector)),
            Err(error) => Err(RuleError::Selector { field: at("selector"), error }),
        },
        (None, None) => Err(combination(at("path"), "is missing: write it or selector")),
        (Some(_), Some(_)) => Err(combination(at("selector"), "can't be combined with path: leave one of them out")),
    }
}

/// Parser of a `fieldRef`: its fields, by the names that the wire type gives them.
struct FieldRefParser<'p, 'w> {
    at: &'p dyn Fn(&str) -> String,
    budget: &'p mut Budget<'w>,
}

impl<'w> FieldRefParser<'_, 'w> {
    fn reference(&mut self, field: &'w api::FieldRef) -> Result<Reference, RuleError> {
        let api::FieldRef {
            path: names,
            value,
            namespace_path,
            namespace,
            namespace_pattern,
            split,
            group_path,
            group_pattern,
            kind_path,
            kind_pattern,
            default_kind,
            api_version_path,
            uid_path,
            keys,
            pattern,
            replacement,
        } = field;
        match (names, value) {
            (Some(names), None) => {
                if replacement.is_some() && pattern.is_none() {
                    return Err(self.wrong("replacement", "needs a pattern: write the pattern whose groups it uses"));
                }
                if default_kind.is_some() && kind_path.is_none() && kind_pattern.is_none() {
                    let why = "needs a kindPath or a kindPattern: write that of the kind that may be absent";
                    return Err(self.wrong("defaultKind", why));
                }
                let at = &(self.at)("split");
                Ok(Reference::Field(Box::new(FieldReference {
                    split: split.as_deref().map(|text| named(at, Separator::parse(text))).transpose()?,
                    path: path(&(self.at)("path"), names)?,
                    keys: *keys,
                    pattern: self.pattern("pattern", pattern, replacement.as_deref())?,
                    place: self.place(namespace, namespace_path, namespace_pattern)?,
                    group: self.source("groupPath", group_path, "groupPattern", group_pattern)?,
                    kind: self.source("kindPath", kind_path, "kindPattern", kind_pattern)?,
                    default_kind: (default_kind.as_deref())
                        .map(|kind| named(&(self.at)("defaultKind"), Kind::parse(kind)))
                        .transpose()?,
                    api_version: self.path("apiVersionPath", api_version_path)?,
                    uid: self.path("uidPath", uid_path)?,
                })))
            }
            (None, Some(name)) => {
                let others = [
                    ("split", split.is_some()),
                    ("groupPath", group_path.is_some()),
                    ("groupPattern", group_pattern.is_some()),
                    ("kindPath", kind_path.is_some()),
                    ("kindPattern", kind_pattern.is_some()),
                    ("defaultKind", default_kind.is_some()),
                    ("apiVersionPath", api_version_path.is_some()),
                    ("uidPath", uid_path.is_some()),
                    ("keys", *keys),
                    ("pattern", pattern.is_some()),
                    ("replacement", replacement.is_some()),
                ];
                if let Some((other, _)) = others.into_iter().find(|(_, is_written)| *is_written) {
                    return Err(self.wrong(other, "can't be combined with value: leave one of them out"));
                }
                if namespace_pattern.is_some() && namespace_path.is_none() {
                    let why = "needs a namespacePath beside value: write that path";
                    return Err(self.wrong("namespacePattern", why));
                }
                Ok(Reference::Fixed(Box::new(FixedReference {
                    name: named(&(self.at)("value"), ObjectName::parse(name))?,
                    place: self.place(namespace, namespace_path, namespace_pattern)?,
                })))
            }
            (None, None) => Err(self.wrong("path", "is missing: write it or value")),
            (Some(_), Some(_)) => Err(self.wrong("value", "can't be combined with path: leave one of them out")),
        }
    }

    fn place(
        &mut self,
        namespace: &Option<String>,
        path: &Option<String>,
        pattern: &'w Option<String>,
    ) -> Result<Place, RuleError> {
        let said = self.source("namespacePath", path, "namespacePattern", pattern)?;
        match (namespace, said) {
            (Some(_), Some(_)) => {
                let why = "can't be combined with namespacePath or namespacePattern: leave one of them out";
                Err(self.wrong("namespace", why))
            }
            (Some(fixed), None) => Ok(Place::Fixed(named(&(self.at)("namespace"), Namespace::parse(fixed))?)),
            (None, Some(said)) => Ok(Place::Said(said)),
            (None, None) => Ok(Place::Own),
        }
    }

    /// Parses a path and a pattern that describe one value; `None` if there is neither.
    fn source(
        &mut self,
        name_of_path: &str,
        path: &Option<String>,
        name_of_pattern: &str,
        pattern: &'w Option<String>,
    ) -> Result<Option<ValueSource>, RuleError> {
        let path = self.path(name_of_path, path)?;
        let pattern = self.pattern(name_of_pattern, pattern, None)?;
        Ok((path.is_some() || pattern.is_some()).then_some(ValueSource { path, pattern }))
    }

    fn path(&self, name: &str, written: &Option<String>) -> Result<Option<FieldPath>, RuleError> {
        written.as_deref().map(|text| path(&(self.at)(name), text)).transpose()
    }

    fn pattern(
        &mut self,
        name: &str,
        written: &'w Option<String>,
        replacement: Option<&str>,
    ) -> Result<Option<Pattern>, RuleError> {
        let field = (self.at)(name);
        written.as_deref().map(|text| self.budget.pattern(&field, text, replacement)).transpose()
    }

    fn wrong(&self, field: &str, why: &str) -> RuleError {
        combination((self.at)(field), why)
    }
}

/// Budget for the compiled patterns of one rule together, in bytes. Each text counts once.
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
        if self.bytes > MAX_COMPILED {
            return Err(RuleError::Patterns { field: field.to_owned(), most: MAX_COMPILED });
        }
        Ok(pattern)
    }
}

fn when(at: &dyn Fn(&str) -> String, written: &api::When) -> Result<Vec<FieldCondition>, RuleError> {
    let api::When { path, r#in, not_in, and } = written;
    if and.len() > FieldCondition::FURTHER.len() {
        let most = FieldCondition::FURTHER.len();
        return Err(combination(at("when.and"), &format!("has more than {most} conditions: name fewer")));
    }
    let first = condition(&|field| at(&format!("when.{field}")), path, r#in.as_ref(), not_in.as_ref());
    let further = and.iter().enumerate().map(|(index, api::FieldCondition { path, r#in, not_in })| {
        condition(&|field| at(&format!("when.and[{index}].{field}")), path, r#in.as_ref(), not_in.as_ref())
    });
    [first].into_iter().chain(further).collect()
}

fn condition(
    at: &dyn Fn(&str) -> String,
    field: &str,
    r#in: Option<&Vec<Scalar>>,
    not_in: Option<&Vec<Scalar>>,
) -> Result<FieldCondition, RuleError> {
    let (list, values, excludes) = match (r#in, not_in) {
        (Some(values), None) => ("in", values, false),
        (None, Some(values)) => ("notIn", values, true),
        (None, None) => return Err(combination(at("in"), "is missing: write it or notIn")),
        (Some(_), Some(_)) => return Err(combination(at("notIn"), "can't be combined with in: leave one of them out")),
    };
    if values.is_empty() {
        let what = if excludes { "it would exclude nothing" } else { "the reference would never count" };
        return Err(combination(at(list), &format!("is empty: {what}; name a value")));
    }
    if values.len() > MAX_VALUES {
        return Err(combination(at(list), &format!("has more than {MAX_VALUES} values: name fewer")));
    }
    Ok(FieldCondition { path: path(&at("path"), field)?, values: values.clone(), excludes })
}

// === Parts of a kind, and errors ===

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
        assert_eq!(rule(ControlPlane::Kubernetes, &equal).unwrap().edges.len(), 1000);

        let other = mk_rule((0..1000).map(|n| format!(r"^{n}/(\w{{1,63}})/(\w{{1,63}})$")));
        let error = rule(ControlPlane::Kubernetes, &other).unwrap_err();
        assert!(matches!(error, RuleError::Patterns { .. }), "{error}");
        assert!(error.field().unwrap().starts_with("spec.dependencies[") && error.to_string().contains("1024 KiB"));
    }
}
