//! Clients that try again by themselves, as `kubectl` does, and refusals after which they end.

use bytes::Bytes;
use depguard_core::ControlPlane;
use depguard_kcp::Endpoint;
use depguard_testbed::{Fault, When};
use http::Request;
use http::header::RETRY_AFTER;
use serde_json::Value;

use crate::scene::{Scene, VPCS, WAYS, eventually};

/// The number of times that client-go repeats a request at most.
const MAX_RETRIES: usize = 10;

/// Deletes a VPC as client-go does: it repeats the request as long as the answer has a `Retry-After`. Returns the status
/// of each answer, and the cause in the last one. (The test does not wait in between.)
async fn delete_like_kubectl(tenant: &Endpoint, vpc: &str) -> (Vec<u16>, Option<String>) {
    let mut statuses = Vec::new();
    loop {
        let request = Request::delete(format!("{VPCS}/{vpc}")).body(Bytes::new()).unwrap();
        let response = tenant.send(request).await.unwrap();
        statuses.push(response.status().as_u16());
        let seconds = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().parse::<u32>().unwrap());
        if seconds.is_some_and(|seconds| (1..=3).contains(&seconds)) && statuses.len() <= MAX_RETRIES {
            continue;
        }
        let status: Value = serde_json::from_slice(response.body()).unwrap();
        let cause = status["details"]["causes"][0]["reason"].as_str().map(str::to_owned);
        return (statuses, cause);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_passes_is_waited_out_and_one_that_stays_ends_the_client() {
    for way in WAYS {
        let (scene, webhook) = Scene::with_reference(way).await;
        eventually("the rule is in force", async || scene.delete_dry("a").await.is_some()).await;

        let said = |cause: &str| Some(cause.to_owned());
        assert_eq!(delete_like_kubectl(&scene.tenant, "a").await, (vec![403], said("StillReferenced")));
        let lists = || When::always().method("GET").path("/virtualmachines?");
        scene.testbed().faults().inject(Fault::InternalError, lists().times(3));
        assert_eq!(delete_like_kubectl(&scene.tenant, "b").await, (vec![429, 429, 429, 200], None), "{way:?}");

        // Neither the number of attempts nor the code of a refusal lets an object go that somebody refers to.
        scene.testbed().faults().inject(Fault::InternalError, lists().times(3));
        let refused = (vec![429, 429, 429, 403], said("StillReferenced"));
        assert_eq!(delete_like_kubectl(&scene.tenant, "a").await, refused, "{way:?}");
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_is_not_told_to_wait_within_a_request() {
    for way in WAYS {
        let (scene, webhook) = Scene::with_reference(way).await;
        eventually("the rule is in force", async || scene.delete_dry("a").await.is_some()).await;

        let workspace = if way.0 == ControlPlane::Kcp { "root:tenant" } else { "" };
        let controller = scene.connection(workspace, "system:kube-controller-manager").await.own_endpoint();
        let fault = scene.testbed().faults().inject(Fault::InternalError, When::always().path("/virtualmachines?"));
        assert_eq!(delete_like_kubectl(&controller, "b").await, (vec![403], Some("ReadFailed".to_owned())), "{way:?}");
        scene.testbed().faults().clear(fault);
        assert_eq!(delete_like_kubectl(&controller, "b").await, (vec![200], None), "{way:?}");
        webhook.stop().await;
    }
}
