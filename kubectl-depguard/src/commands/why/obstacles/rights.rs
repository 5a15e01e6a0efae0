//! Right of the caller to delete the target.

use depguard_kcp::Endpoint;
use serde_json::{Value, json};

use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource};
use crate::commands::why::target::Target;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks the API server if the caller may delete the target; `None` if it gives no answer.
pub(in crate::commands::why) async fn may_delete(endpoint: &Endpoint, target: &Target) -> Option<bool> {
    let gvr = &target.info.gvr;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": "delete", "group": gvr.group.as_str(), "version": gvr.version.as_str(),
            "resource": gvr.resource.as_str(), "namespace": target.namespace.as_deref().unwrap_or_default(),
            "name": target.name,
        }},
    });
    let answer = endpoint.post_json(REVIEWS, &review).await.ok()?;
    answer.pointer("/status/allowed").and_then(Value::as_bool)
}

/// Builds the obstacle of a caller without the right.
pub(in crate::commands::why) fn missing(right: &str) -> Obstacle {
    Obstacle::new(
        ObstacleSource::Rights,
        Effect::Refuses,
        format!("you have no right to {right}"),
        format!("ask for the right to {right}, or ask somebody who has it"),
    )
}
