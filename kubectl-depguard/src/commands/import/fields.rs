//! How a related object is found: what a rule's `fieldRef` or `selectorRef` says of it.

use depguard_core::api::{FieldRef, LabelSelector, SelectorRef};
use depguard_core::{FieldPath, Segment, Selector};
use serde::Deserialize;
use serde_json::Value;

use super::path::{Path, of_template, path};
use super::report::Effect;
use super::rewriting::{Rewriting, rewriting};
use super::written::{Locator, Object, Reference, Related};

/// How it is found, and what is to be said of that.
pub(super) type Found = (By, Vec<(Effect, String, String)>);

/// How a related object is found.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// By its name, in a field.
    Field(FieldRef),
    /// By its labels.
    Labels(SelectorRef),
}

/// How the name and the namespace are found: several ways where a value may mean either of two.
pub(super) fn fields(related: &Related) -> Result<Vec<Found>, (String, String)> {
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
        (None, None) => return Err(("object".to_owned(), "no object is said: write it".to_owned())),
        (Some(_), Some(_)) => {
            return Err(("reference".to_owned(), "stands beside object: leave one of them out".to_owned()));
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

/// What a locator points at: a path, and what is made of its value.
fn located(locator: &Locator, at: &str) -> Result<(Path, Rewriting), (String, String)> {
    let failed = |field: &str, why: String| (format!("{at}{field}"), why);
    match (&locator.reference, &locator.selector, &locator.template) {
        (Some(reference), None, None) => {
            let field = if at.starts_with("reference") { "" } else { ".reference" };
            let rewriting =
                rewriting(reference.regex.as_ref()).map_err(|why| failed(&format!("{field}.regex"), why))?;
            match path(&reference.path) {
                Ok(path) => Ok((path, rewriting)),
                // Of a fixed value the path means nothing.
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
                    "the template `{}` can't be said in a rule: of templates those are told that print one field, as in \
                     `{{{{ .Object.spec.secretName }}}}`",
                    template.template
                ),
            )),
        },
        (None, Some(_), None) => Err(failed(
            ".selector",
            "a rule goes by the names of namespaces, and not by their labels: write a reference".to_owned(),
        )),
        (None, None, None) => Err(failed("", "neither reference, selector nor template is said: write one".to_owned())),
        _ => Err(failed("", "reference, selector and template exclude each other: leave one".to_owned())),
    }
}

/// A selector of related objects. How their copies are called says nothing of which they are.
fn labels(written: &Value, at: &str) -> Result<Found, (String, String)> {
    let failed = |why: String| (format!("{at}.selector"), why);
    let mut selector = written.clone();
    if let Some(fields) = selector.as_object_mut() {
        fields.remove("rewrite");
    }
    if selector.pointer("/matchLabels").is_some_and(|labels| labels.to_string().contains("{{")) {
        return Err(failed(
            "has a template: a rule's selector is the same for every object. Where a field of the objects names the \
             related one, write a reference"
                .to_owned(),
        ));
    }
    let selector =
        LabelSelector::deserialize(selector).map_err(|why| failed(format!("is no label selector: {why}")))?;
    Selector::parse(&selector).map_err(|why| failed(why.to_string()))?;
    Ok((By::Labels(SelectorRef { path: None, selector: Some(selector) }), Vec::new()))
}

/// Whether every object has something at this path. Where the agent finds nothing it syncs nothing.
fn is_always_there(path: &str) -> bool {
    [".metadata.name", ".metadata.uid", ".metadata.namespace"].contains(&path)
}

fn names(locator: &Locator, at: &str) -> Result<Vec<Found>, (String, String)> {
    let (Path { path, assumed }, rewriting) = located(locator, at)?;
    let mut said: Vec<_> = assumed.into_iter().map(|what| (Effect::Assumed, at.to_owned(), what)).collect();
    let plain = FieldRef { path: path.clone(), ..FieldRef::default() };
    Ok(match rewriting {
        Rewriting::None => vec![(By::Field(plain), said)],
        Rewriting::Fixed(name) if name.is_empty() => {
            return Err((at.to_owned(), "the name is always empty: write a replacement".to_owned()));
        }
        Rewriting::Fixed(name) => {
            let always = is_always_there(&path);
            if !always {
                let message =
                    format!("every object of the kind holds `{name}`, also where there is nothing at the path");
                said.push((Effect::Wider, at.to_owned(), message));
            }
            let path = if always { path } else { ".metadata.name".to_owned() };
            let replacement = Some(name.replace('$', "$$"));
            let field = FieldRef { path, pattern: Some("^".to_owned()), replacement, ..FieldRef::default() };
            vec![(By::Field(field), said)]
        }
        Rewriting::Replaced { pattern, replacement, also_itself, .. } => {
            let replaced = FieldRef { pattern: Some(pattern), replacement: Some(replacement), ..plain.clone() };
            let mut found = vec![(By::Field(replaced), said)];
            if also_itself {
                let message = "what the pattern doesn't match is a name as it is: the rule holds that name too where the \
                               pattern matches";
                found.push((By::Field(plain), vec![(Effect::Wider, at.to_owned(), message.to_owned())]));
            }
            found
        }
    })
}

/// The same, with the namespace that they are in.
fn placed(found: &[Found], locator: &Locator, at: &str) -> Result<Vec<Found>, (String, String)> {
    let (Path { path, assumed }, rewriting) = located(locator, at)?;
    let by_labels = found.iter().any(|(by, _)| matches!(by, By::Labels(_)));
    if by_labels && !(matches!(rewriting, Rewriting::None) && path == ".metadata.namespace") {
        let why = "a rule selects by labels in the object's own namespace only: leave the namespace out, or write a \
                   reference to the name";
        return Err((at.to_owned(), why.to_owned()));
    }
    let with = |place: &dyn Fn(&mut FieldRef), more: Option<(Effect, String)>| {
        let said = assumed.iter().map(|what| (Effect::Assumed, what.clone())).chain(more);
        let said: Vec<_> = said.map(|(effect, what)| (effect, at.to_owned(), what)).collect();
        let placed = found.iter().map(|(by, own)| {
            let mut by = by.clone();
            if let By::Field(field) = &mut by {
                place(field);
            }
            (by, own.iter().chain(&said).cloned().collect())
        });
        placed.collect::<Vec<Found>>()
    };
    let many = FieldPath::parse(&path).is_ok_and(|path| path.segments().contains(&Segment::Wildcard));
    if many && !matches!(rewriting, Rewriting::Fixed(_)) {
        let why = "the agent looks for every name in each of several namespaces, and a rule for each name in its own: name \
                   one namespace";
        return Err((at.to_owned(), why.to_owned()));
    }
    let wider = |message: String| (!is_always_there(&path)).then_some((Effect::Wider, message));
    Ok(match rewriting {
        // Without more, a rule means the object's own namespace.
        Rewriting::None if path == ".metadata.namespace" => with(&|_| {}, None),
        Rewriting::None => {
            let message = "where there is nothing at the path the agent syncs nothing, and the rule holds the name in the \
                           object's own namespace";
            with(&|field| field.namespace_path = Some(path.clone()), wider(message.to_owned()))
        }
        Rewriting::Fixed(namespace) => {
            let message = format!("the rule holds the name in `{namespace}` also where there is nothing at the path");
            with(&|field| field.namespace = Some(namespace.clone()), wider(message))
        }
        // Where the expression doesn't match, the agent takes the value itself, and a rule the object's own namespace.
        Rewriting::Replaced { first_group: Some(pattern), .. } => {
            let cut = |field: &mut FieldRef| {
                field.namespace_path = Some(path.clone());
                field.namespace_pattern = Some(pattern.clone());
            };
            let message = "what the pattern doesn't match is a namespace as it is: the rule holds the name there too where \
                           the pattern matches, and in the object's own namespace where it doesn't";
            let mut found = with(&cut, Some((Effect::Wider, message.to_owned())));
            found.extend(with(&|field| field.namespace_path = Some(path.clone()), None));
            found
        }
        Rewriting::Replaced { .. } => {
            let why = "of a namespace a rule takes the value, a fixed one, or the first group of a pattern: write one from \
                       `^` to `$` with the replacement `$1`";
            return Err((at.to_owned(), why.to_owned()));
        }
    })
}
