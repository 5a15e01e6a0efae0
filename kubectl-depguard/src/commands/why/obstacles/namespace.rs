//! Deletion of a namespace: its conditions, and the objects in it that hold it up.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::model::Namespace;
use serde_json::Value;

use super::Subject;
use super::content::{self, Hit};
use super::finalizers;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::{release, text};
use crate::engine::reference_scan::{Follow, Scan, Scope};
use crate::io::exit::Failure;

/// Limit on the names in one line.
const MAX_NAMES: usize = 3;
/// Limit on the references from other namespaces.
const MAX_REFERENCES: usize = 1_000;

/// Conditions that are true while a deletion is stuck, with the next step for each.
const CONDITIONS: [(&str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "repair the API behind it, or delete its APIService if its product is gone: `kubectl get apiservices` shows which \
         are not available",
    ),
    ("NamespaceDeletionGroupVersionParsingFailure", "delete the APIService with the wrong name"),
    ("NamespaceDeletionContentFailure", "the message says who refuses; the namespace controller tries again by itself"),
    ("NamespaceContentRemaining", "look at the objects that remain; they are listed with what holds them"),
    ("NamespaceFinalizersRemaining", "check that the controllers of these finalizers run"),
];

/// Finds whatever holds up a namespace. Other targets have nothing of this kind.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    if !subject.is("", "namespaces") {
        return Ok(());
    }
    found.list.extend(conditions(&subject.target.object));
    if is_true(&subject.target.object, "NamespaceDeletionDiscoveryFailure") {
        unavailable_apis(subject, found).await?;
    }
    let content = content(subject, found).await?;
    found.list.extend(content);
    referenced_from_elsewhere(subject, found).await
}

fn conditions(namespace: &Value) -> Vec<Obstacle> {
    let explain = |(condition, next_step): &(&str, &str)| {
        is_true(namespace, condition).then(|| {
            let message = message(namespace, condition).unwrap_or("no message");
            Obstacle::new(
                ObstacleSource::Namespace,
                Effect::Holds,
                format!("condition {condition}: {message}"),
                *next_step,
            )
        })
    };
    CONDITIONS.iter().filter_map(explain).collect()
}

fn condition<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let mut conditions = object.pointer("/status/conditions")?.as_array()?.iter();
    conditions.find(|condition| text(condition, "/type") == Some(name))
}

fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| text(condition, "/status") == Some("True"))
}

fn message<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    text(condition(object, name)?, "/message")
}

/// Names the APIServices that are not available: the kinds that they serve can't be listed.
async fn unavailable_apis(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let mut unavailable = Vec::new();
    let unread = subject.list("apiregistration.k8s.io", "apiservices", |service| {
        if condition(&service, "Available").is_some_and(|available| text(available, "/status") != Some("True")) {
            let name = text(&service, "/metadata/name").unwrap_or_default();
            unavailable.push(Obstacle::new(
                ObstacleSource::Namespace,
                Effect::Holds,
                format!(
                    "APIService {name} is not available: {}",
                    message(&service, "Available").unwrap_or("no message")
                ),
                format!(
                    "repair its Service, or delete it if its product is gone: `kubectl describe apiservice {name}`"
                ),
            ));
        }
    });
    found.unread_holds.extend(unread.await?);
    found.list.append(&mut unavailable);
    Ok(())
}

/// Finds the objects in the namespace that have finalizers, or that the namespace's deletion has not reached.
async fn content(subject: &Subject<'_>, found: &mut Obstacles) -> Result<Vec<Obstacle>, Failure> {
    let is_terminating = subject.target.is_terminating();
    let has_finalizers = |object: &Value| {
        object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    let is_wanted = |object: &Value| is_terminating || has_finalizers(object);
    let content = content::scan(subject, Some(&subject.target.name), &is_wanted).await?;
    found.unread_holds.extend(content.unread);
    let mut by_finalizer: BTreeMap<(&str, bool), Vec<&Hit>> = BTreeMap::new();
    let (mut untouched, mut lingering) = (Vec::new(), Vec::new());
    for hit in &content.hits {
        for finalizer in &hit.finalizers {
            by_finalizer.entry((finalizer, hit.deletion_timestamp.is_some())).or_default().push(hit);
        }
        match (hit.finalizers.is_empty(), &hit.deletion_timestamp) {
            (true, None) => untouched.push(hit),
            (true, Some(_)) => lingering.push(hit),
            (false, _) => {}
        }
    }
    let mut obstacles: Vec<_> = by_finalizer
        .into_iter()
        .map(|((finalizer, is_going), hits)| of_finalizer(finalizer, is_going, is_terminating, &hits))
        .collect();
    // What the namespace controller has not reached yet holds nothing up, unless it has tried.
    let has_tried = condition(&subject.target.object, "NamespaceDeletionContentFailure").is_some();
    let of_untouched = if has_tried || obstacles.is_empty() { Effect::Holds } else { Effect::Delays };
    for (what, effect, hits) in
        [("not deleted yet", of_untouched, untouched), ("being deleted, without finalizers", Effect::Holds, lingering)]
    {
        if let Some(first) = hits.first() {
            let says = format!("{what}: {}", names(&hits));
            obstacles.push(Obstacle::new(ObstacleSource::NamespaceContent, effect, says, first.ask_why()));
        }
    }
    Ok(obstacles)
}

/// Explains a finalizer of objects in the namespace: it holds those whose deletion has begun. In a namespace that is being
/// deleted, that of the others begins at once, so that a finalizer of which nobody knows the controller holds them, too.
fn of_finalizer(finalizer: &str, is_going: bool, is_terminating: bool, hits: &[&Hit]) -> Obstacle {
    let oldest = hits.iter().filter_map(|hit| hit.deletion_timestamp.as_deref()).min();
    let waits = finalizers::waiting(oldest);
    let (about, next_step) = finalizers::about(finalizer, None);
    let effect = match (is_going, finalizers::is_known(finalizer)) {
        (true, _) => Effect::Holds,
        (false, true) => Effect::Delays,
        (false, false) if is_terminating => Effect::Holds,
        (false, false) => Effect::MayHold,
    };
    Obstacle::new(
        ObstacleSource::NamespaceContent,
        effect,
        format!("finalizer {finalizer} of {}{waits}: {about}", names(hits)),
        next_step,
    )
}

/// Names objects: `VirtualMachine/shop/m1, VirtualMachine/shop/m2 and 3 more`.
fn names(hits: &[&Hit]) -> String {
    let shown: Vec<_> = hits.iter().take(MAX_NAMES).map(|hit| hit.shown.as_str()).collect();
    match hits.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Finds objects in the namespace that rules protect because of dependents elsewhere. Dependents in the same namespace
/// end with it.
async fn referenced_from_elsewhere(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let Ok(namespace) = Namespace::parse(&subject.target.name) else { return Ok(()) };
    let read_less = "ask about one object of the namespace at a time: `kubectl depguard why KIND NAME`";
    let (within, fallback) = (Some(&namespace), Some(&namespace));
    let scope = Scope { namespace: within, fallback, ..Scope::all(Follow::Dependents, read_less) };
    let scan = Scan::read(subject.source, subject.rules, scope, &[], subject.terminal).await?;
    found.unread_holds.extend(scan.unread.iter().map(ToString::to_string));
    let mut list = Vec::new();
    let denies = scan.references.iter().filter_map(|reference| {
        let edge = scan.edges.get(reference.edge).filter(|edge| edge.edge.on_delete == OnDelete::Deny)?;
        let from = scan.objects.get(reference.from).filter(|from| !from.inside)?;
        Some((reference, edge, from))
    });
    for (reference, edge, from) in denies {
        let held = reference.holds.iter().filter_map(|index| scan.objects.get(*index));
        for target in held.filter(|target| target.inside && !target.terminating) {
            let field = edge.edge.field();
            list.push(Obstacle::new(
                ObstacleSource::NamespaceContent,
                Effect::Holds,
                format!(
                    "{target} is still referenced by {from} (rule {}, {field}), which stays",
                    subject.rules.shown(edge.rule())
                ),
                release::ways(&edge.edge, from, target),
            ));
        }
    }
    if list.len() > MAX_REFERENCES {
        list.truncate(MAX_REFERENCES);
        found.unread_holds.push(format!("all references from elsewhere (there are more than {MAX_REFERENCES})"));
    }
    found.list.append(&mut list);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_an_obstacle_while_it_is_true() {
        let namespace = json!({"status": {"conditions": [
            {"type": "NamespaceDeletionDiscoveryFailure", "status": "True", "message": "metrics.k8s.io/v1beta1: down"},
            {"type": "NamespaceContentRemaining", "status": "False", "message": "All content successfully removed"},
            {"type": "Other", "status": "True", "message": "x"},
        ]}});
        let found = conditions(&namespace);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].says.ends_with("metrics.k8s.io/v1beta1: down"), "{found:?}");
        assert!(found[0].next_step.contains("kubectl get apiservices"), "{found:?}");
    }
}
