//! References to related objects: the `fieldRef` or `selectorRef` of a rule.

use depguard_core::FieldPath;
use depguard_core::api::{FieldRef, LabelSelector, SelectorRef};
use depguard_core::model::{Segment, Selector};
use serde::Deserialize;
use serde_json::Value;

use super::path::{Path, of_template, path};
use super::report::Effect;
use super::rewriting::{Rewriting, rewriting};
use super::written::{Locator, Object, Reference, Related};

/// Reference to a related object, with its findings.
pub(super) type DerivedReference = (RuleReference, Vec<(Effect, String, String)>);

/// Reference to a related object.
#[derive(Debug, Clone)]
pub(super) enum RuleReference {
    /// By the name in a field.
    Field(Box<FieldRef>),
    /// By labels.
    Labels(SelectorRef),
}

/// Returns the references to a related resource, by name or by labels: several if a value may mean either of two names.
pub(super) fn fields(related: &Related) -> Result<Vec<DerivedReference>, (String, String)> {
    let (name_at, name, namespace) = match (&related.reference, &related.object) {
        (Some(older), None) => {
            let locator = |reference: &Reference| Locator { reference: Some(reference.clone()), ..Locator::default() };
            (
                "reference.name",
                locator(&older.name),
                older.namespace.as_ref().map(|reference| ("reference.namespace", locator(reference))),
            )
        }
        (None, Some(Object { name, namespace })) => {
            ("object", name.clone(), namespace.clone().map(|namespace| ("object.namespace", namespace)))
        }
        (None, None) => return Err(("object".to_owned(), "is missing: write it".to_owned())),
        (Some(_), Some(_)) => {
            return Err(("reference".to_owned(), "object is set, too: remove one of them".to_owned()));
        }
    };
    let mut found = match &name {
        Locator { reference: None, selector: Some(selector), template: None } => vec![labels(selector, name_at)?],
        name => names(name, name_at)?,
    };
    if let Some((at, namespace)) = namespace {
        found = placed(&found, &namespace, at)?;
    }
    Ok(found)
}

/// Returns the target of a locator: a path, and the rewriting of its value.
fn located(locator: &Locator, at: &str) -> Result<(Path, Rewriting), (String, String)> {
    let failed = |field: &str, why: String| (format!("{at}{field}"), why);
    match (&locator.reference, &locator.selector, &locator.template) {
        (Some(reference), None, None) => {
            let field = if at.starts_with("reference") { "" } else { ".reference" };
            let rewriting =
                rewriting(reference.regex.as_ref()).map_err(|why| failed(&format!("{field}.regex"), why))?;
            match path(&reference.path) {
                Ok(path) => Ok((path, rewriting)),
                // A fixed value does not depend on the path.
                Err(_) if matches!(rewriting, Rewriting::Fixed(_)) => {
                    Ok((Path { path: String::new(), assumed: None }, rewriting))
                }
                Err(why) => Err(failed(&format!("{field}.path"), why)),
            }
        }
        (None, None, Some(template)) => match of_template(&template.template) {
            Some(path) => Ok((Path { path, assumed: None }, Rewriting::None)),
            None => Err(failed(
                ".template",
                format!(
                    "a rule can't express the template `{}`: write one that prints a single field, as in \
                     `{{{{ .Object.spec.secretName }}}}`",
                    template.template
                ),
            )),
        },
        (None, Some(_), None) => {
            Err(failed(".selector", "a rule can't select namespaces by their labels: write a reference".to_owned()))
        }
        (None, None, None) => Err(failed("", "reference, selector and template are missing: write one".to_owned())),
        _ => Err(failed("", "reference, selector and template exclude each other: keep one".to_owned())),
    }
}

/// Builds a selector of related objects. The rewriting of their copies' names does not change the selection.
fn labels(written: &Value, at: &str) -> Result<DerivedReference, (String, String)> {
    let failed = |why: String| (format!("{at}.selector"), why);
    let mut selector = written.clone();
    if let Some(fields) = selector.as_object_mut() {
        fields.remove("rewrite");
    }
    if selector.pointer("/matchLabels").is_some_and(|labels| labels.to_string().contains("{{")) {
        return Err(failed(
            "has a template, but a rule's selector is the same for every object: if a field of the objects names the \
             related one, write a reference"
                .to_owned(),
        ));
    }
    let selector =
        LabelSelector::deserialize(selector).map_err(|why| failed(format!("is not a label selector: {why}")))?;
    Selector::parse(&selector).map_err(|why| failed(why.to_string()))?;
    Ok((RuleReference::Labels(SelectorRef { selector: Some(selector), ..SelectorRef::default() }), Vec::new()))
}

/// Returns true if every object has a value at this path. Where the agent finds no value, it syncs nothing.
fn is_always_there(path: &str) -> bool {
    [".metadata.name", ".metadata.uid", ".metadata.namespace"].contains(&path)
}

fn names(locator: &Locator, at: &str) -> Result<Vec<DerivedReference>, (String, String)> {
    let (Path { path, assumed }, rewriting) = located(locator, at)?;
    let mut findings: Vec<_> = assumed.into_iter().map(|what| (Effect::Assumed, at.to_owned(), what)).collect();
    let plain = FieldRef { path: Some(path.clone()), ..FieldRef::default() };
    Ok(match rewriting {
        Rewriting::None => vec![(RuleReference::Field(Box::new(plain)), findings)],
        Rewriting::Fixed(name) if name.is_empty() => {
            return Err((at.to_owned(), "the name is always empty: write a replacement".to_owned()));
        }
        Rewriting::Fixed(name) => {
            if !is_always_there(&path) {
                let message = format!("every object of the kind protects `{name}`, even without a value at the path");
                findings.push((Effect::Wider, at.to_owned(), message));
            }
            let field = FieldRef { value: Some(name), ..FieldRef::default() };
            vec![(RuleReference::Field(Box::new(field)), findings)]
        }
        Rewriting::Replaced { pattern, replacement, also_itself, .. } => {
            let replaced = FieldRef { pattern: Some(pattern), replacement: Some(replacement), ..plain.clone() };
            let mut found = vec![(RuleReference::Field(Box::new(replaced)), findings)];
            if also_itself {
                let message = "a value that the pattern doesn't match is itself the name: the rule also protects that \
                               name if the pattern matches";
                found.push((
                    RuleReference::Field(Box::new(plain)),
                    vec![(Effect::Wider, at.to_owned(), message.to_owned())],
                ));
            }
            found
        }
    })
}

/// Adds the namespace of the related objects to each reference.
fn placed(found: &[DerivedReference], locator: &Locator, at: &str) -> Result<Vec<DerivedReference>, (String, String)> {
    let (Path { path, assumed }, rewriting) = located(locator, at)?;
    let by_labels = found.iter().any(|(by, _)| matches!(by, RuleReference::Labels(_)));
    if by_labels && !(matches!(rewriting, Rewriting::None) && path == ".metadata.namespace") {
        let why = "a rule selects by labels only in the object's own namespace: remove the namespace, or write a \
                   reference to the name";
        return Err((at.to_owned(), why.to_owned()));
    }
    let with = |place: &dyn Fn(&mut FieldRef), more: Option<(Effect, String)>| {
        let findings = assumed.iter().map(|what| (Effect::Assumed, what.clone())).chain(more);
        let findings: Vec<_> = findings.map(|(effect, what)| (effect, at.to_owned(), what)).collect();
        let placed = found.iter().map(|(by, own)| {
            let mut by = by.clone();
            if let RuleReference::Field(field) = &mut by {
                place(field);
            }
            (by, own.iter().chain(&findings).cloned().collect())
        });
        placed.collect::<Vec<DerivedReference>>()
    };
    let many = FieldPath::parse(&path).is_ok_and(|path| path.segments().contains(&Segment::Wildcard));
    if many && !matches!(rewriting, Rewriting::Fixed(_)) {
        let why = "the agent searches every name in each of several namespaces, but a rule searches each name in one: \
                   name one namespace";
        return Err((at.to_owned(), why.to_owned()));
    }
    let wider = |message: String| (!is_always_there(&path)).then_some((Effect::Wider, message));
    Ok(match rewriting {
        // By default, a rule means the object's own namespace.
        Rewriting::None if path == ".metadata.namespace" => with(&|_| {}, None),
        Rewriting::None => {
            let message = "without a value at the path the agent syncs nothing, but the rule protects the name in the \
                           object's own namespace";
            with(&|field| field.namespace_path = Some(path.clone()), wider(message.to_owned()))
        }
        Rewriting::Fixed(namespace) => {
            let message = format!("the rule protects the name in `{namespace}` even without a value at the path");
            with(&|field| field.namespace = Some(namespace.clone()), wider(message))
        }
        // If the expression doesn't match, the agent takes the value itself; a rule takes the object's own namespace.
        Rewriting::Replaced { first_group: Some(pattern), .. } => {
            let cut = |field: &mut FieldRef| {
                field.namespace_path = Some(path.clone());
                field.namespace_pattern = Some(pattern.clone());
            };
            let message = "a value that the pattern doesn't match is itself the namespace: the rule also protects the \
                           name there if the pattern matches, and in the object's own namespace if it does not";
            let mut found = with(&cut, Some((Effect::Wider, message.to_owned())));
            found.extend(with(&|field| field.namespace_path = Some(path.clone()), None));
            found
        }
        Rewriting::Replaced { .. } => {
            let why = "a rule takes a namespace from the value, a fixed text, or the first group of a pattern: write a \
                       pattern from `^` to `$` with the replacement `$1`";
            return Err((at.to_owned(), why.to_owned()));
        }
    })
}
