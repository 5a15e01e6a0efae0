//! Webhooks and policies, other than depguard's own, that review the deletion.

use std::collections::BTreeSet;

use depguard_core::api::LabelSelector;
use depguard_core::model::Selector;
use depguard_kcp::Endpoint;
use serde_json::Value;

use super::Subject;
use crate::cluster::source::Source;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::text;
use crate::io::exit::Failure;

const GROUP: &str = "admissionregistration.k8s.io";
/// End of the names of depguard's webhooks.
const OURS: &str = ".dependencies.opendefense.cloud";
/// Kinds of webhook configurations.
const CONFIGURATIONS: [(&str, &str, &str); 2] = [
    ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "validating"),
    ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "mutating"),
];
/// Limit on the webhooks whose Services are looked at.
const MAX_SERVICES: usize = 20;

/// Webhook or policy that reviews the deletion.
struct Reviewer {
    name: String,
    says: String,
    /// Service of a webhook: namespace and name.
    service: Option<(String, String)>,
}

/// Finds the webhooks and policies that review the deletion. A dry run shows whether they refuse.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let labels = Labels::read(subject).await;
    let mut reviewers = Vec::new();
    for (resource, kind, sort) in CONFIGURATIONS {
        let unread = subject.list(GROUP, resource, |configuration| {
            let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
            let covering = webhooks.filter(|webhook| covers(subject, &labels, webhook, webhook.get("rules")));
            reviewers.extend(covering.filter_map(|webhook| {
                let within = format!("{kind} {}", text(&configuration, "/metadata/name").unwrap_or_default());
                Reviewer::of_webhook(webhook, sort, &within)
            }));
        });
        found.unread_refusals.extend(unread.await?);
    }
    policies(subject, &labels, &mut reviewers, found).await?;
    for (index, reviewer) in reviewers.into_iter().enumerate() {
        let state = match (&reviewer.service, subject.source) {
            (Some((namespace, name)), Source::ApiServer(live)) if index < MAX_SERVICES => {
                service_state(&live.endpoint(), namespace, name).await
            }
            _ => None,
        };
        found.list.push(reviewer.obstacle(state));
    }
    Ok(())
}

/// Finds the ValidatingAdmissionPolicies that a binding makes refuse.
async fn policies(
    subject: &Subject<'_>,
    labels: &Labels,
    reviewers: &mut Vec<Reviewer>,
    found: &mut Obstacles,
) -> Result<(), Failure> {
    let mut denying = BTreeSet::new();
    let unread = subject.list(GROUP, "validatingadmissionpolicybindings", |binding| {
        let actions = binding.pointer("/spec/validationActions").and_then(Value::as_array).into_iter().flatten();
        if let Some(policy) = text(&binding, "/spec/policyName")
            && actions.into_iter().any(|action| action == "Deny")
        {
            denying.insert(policy.to_owned());
        }
    });
    let unread = unread.await?;
    // Without the bindings, any policy may refuse.
    let all = !unread.is_empty();
    found.unread_refusals.extend(unread);
    let unread = subject.list(GROUP, "validatingadmissionpolicies", |policy| {
        let name = text(&policy, "/metadata/name").unwrap_or_default();
        let Some(constraints) = policy.pointer("/spec/matchConstraints") else { return };
        let excluded = constraints.get("excludeResourceRules").and_then(Value::as_array).into_iter().flatten();
        let is_excluded = excluded.into_iter().any(|rule| is_about(subject, constraints, rule));
        if (all || denying.contains(name))
            && !is_excluded
            && covers(subject, labels, constraints, constraints.get("resourceRules"))
        {
            let failure_policy = text(&policy, "/spec/failurePolicy").unwrap_or("Fail");
            reviewers.push(Reviewer {
                name: name.to_owned(),
                says: format!("ValidatingAdmissionPolicy {name} (failurePolicy {failure_policy}) reviews the deletion"),
                service: None,
            });
        }
    });
    found.unread_refusals.extend(unread.await?);
    Ok(())
}

impl Reviewer {
    fn of_webhook(webhook: &Value, sort: &str, within: &str) -> Option<Self> {
        let name = text(webhook, "/name")?;
        if name.ends_with(OURS) {
            return None;
        }
        let client = |field: &str| text(webhook, &format!("/clientConfig/{field}"));
        let service = client("service/namespace").zip(client("service/name"));
        let address = match service {
            Some((namespace, name)) => format!("Service {namespace}/{name}"),
            None => client("url").unwrap_or("no address").to_owned(),
        };
        let failure_policy = text(webhook, "/failurePolicy").unwrap_or("Fail");
        Some(Self {
            name: name.to_owned(),
            says: format!(
                "{sort} webhook {name} ({within}, failurePolicy {failure_policy}, {address}) reviews the deletion"
            ),
            service: service.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
        })
    }

    /// Builds the obstacle. `state`: the reason why the API server can't reach the webhook's Service, if it is known.
    fn obstacle(self, state: Option<String>) -> Obstacle {
        let (state, next_step) = match state {
            Some(state) => (
                format!("; {state}"),
                "bring the Service back, or delete the configuration if its product is gone".to_owned(),
            ),
            None => (String::new(), "only a dry run shows if it refuses: `kubectl delete --dry-run=server`".to_owned()),
        };
        let says = format!("{}{state}", self.says);
        let obstacle = Obstacle::new(ObstacleSource::Admission, Effect::MayRefuse, says, next_step);
        Obstacle { name: Some(self.name), ..obstacle }
    }
}

/// Labels by which webhooks select the target.
struct Labels {
    object: Value,
    /// Labels of the target's namespace; `None` if they could not be read, or if there is no namespace.
    namespace: Option<Value>,
}

impl Labels {
    async fn read(subject: &Subject<'_>) -> Self {
        let of = |object: &Value| object.pointer("/metadata/labels").cloned().unwrap_or_default();
        let object = of(&subject.target.object);
        let namespace = match (subject.namespace(), subject.source) {
            (Some(name), Source::ApiServer(live)) => {
                let namespace = live.endpoint().get_json(&format!("/api/v1/namespaces/{name}")).await;
                namespace.ok().as_ref().map(of)
            }
            (None, _) if subject.is("", "namespaces") => Some(object.clone()),
            _ => None,
        };
        Self { object, namespace }
    }
}

/// Returns true if a webhook or the constraints of a policy cover the deletion. A selector that can't be read, or whose
/// labels can't be read, selects everything.
fn covers(subject: &Subject<'_>, labels: &Labels, by: &Value, rules: Option<&Value>) -> bool {
    let selects = |selector: &str, labels: Option<&Value>| {
        let selector = by.get(selector).filter(|selector| !selector.is_null());
        let parsed = selector.and_then(|selector| serde_json::from_value::<LabelSelector>(selector.clone()).ok());
        let parsed = parsed.and_then(|selector| Selector::parse(&selector).ok());
        match (parsed, labels) {
            (Some(selector), Some(labels)) => selector.matches(|key| labels.get(key).and_then(Value::as_str)),
            _ => true,
        }
    };
    let mut rules = rules.and_then(Value::as_array).into_iter().flatten();
    rules.any(|rule| is_about(subject, by, rule))
        && selects("objectSelector", Some(&labels.object))
        && selects("namespaceSelector", labels.namespace.as_ref())
}

/// Returns true if a rule of a webhook or policy names deletions of the target's kind.
fn is_about(subject: &Subject<'_>, by: &Value, rule: &Value) -> bool {
    let gvr = &subject.target.info.gvr;
    let has = |field: &str, value: &str| {
        let listed = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        listed.into_iter().any(|it| it == "*" || it == value)
    };
    // By default, a rule about one version covers requests in all others.
    let any_version = text(by, "/matchPolicy") != Some("Exact");
    let listed = rule.get("resources").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut resources = listed.map(|listed| listed.split_once('/').unwrap_or((listed, "")));
    let is_scope = match text(rule, "/scope") {
        Some("Namespaced") => subject.target.namespace.is_some(),
        Some("Cluster") => subject.target.namespace.is_none(),
        _ => true,
    };
    let names = rule.get("resourceNames").and_then(Value::as_array).filter(|names| !names.is_empty());
    has("operations", "DELETE")
        && has("apiGroups", gvr.group.as_str())
        && (any_version || has("apiVersions", gvr.version.as_str()))
        && resources
            .any(|(resource, part)| (resource == "*" || resource == gvr.resource.as_str()) && matches!(part, "" | "*"))
        && is_scope
        && names.is_none_or(|names| names.iter().any(|name| *name == *subject.target.name))
}

/// Returns the reason why an API server can't reach a Service; `None` if there is no sign of that.
async fn service_state(endpoint: &Endpoint, namespace: &str, name: &str) -> Option<String> {
    let service = endpoint.get_json(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await;
    if service.is_err_and(|why| why.is_missing(name)) {
        return Some("the Service does not exist".to_owned());
    }
    let slices = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
    );
    let slices = endpoint.list_json(&slices).await.ok()?.items;
    let endpoints = slices.iter().filter_map(|slice| slice.get("endpoints")?.as_array()).flatten();
    // An endpoint that says nothing is ready.
    let mut ready =
        endpoints.filter(|it| it.pointer("/conditions/ready").is_none_or(|ready| *ready != Value::Bool(false)));
    ready.next().is_none().then(|| "the Service has no ready endpoint".to_owned())
}
