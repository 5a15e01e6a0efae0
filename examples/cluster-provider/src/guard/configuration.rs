//! Configuration that makes the platform cluster's API server ask this webhook.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube_client::Api;
use kube_client::core::params::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::api::{GROUP, OWN_GROUP};
use crate::platform::Platform;
use crate::{Error, Result};

/// Time in which the API server waits for an answer, in seconds. The API server tells the webhook.
const TIMEOUT: u32 = 10;

/// Returns the webhook's name, which begins each refusal. Its configuration has the same name.
pub fn webhook_name(platform: &Platform) -> String {
    format!("{}.clusters.{OWN_GROUP}", platform.provider())
}

/// Makes the API server ask before the deletion of any object that others may refer to. Without an answer, the API
/// server refuses.
pub(super) async fn install(platform: &Platform, url: &str, authority: &str) -> Result<()> {
    let name = webhook_name(platform);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "labels": platform.labels()},
        "webhooks": [{
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": STANDARD.encode(authority)},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT,
            "rules": [{
                "operations": ["DELETE"],
                "apiGroups": [GROUP],
                "apiVersions": ["*"],
                "resources": ["clusterprofiles", "clusters", "clusterrequests"],
            }],
        }],
    });
    let parameters = PatchParams::apply("cluster-provider-example").force();
    all(platform)
        .patch(&name, &parameters, &Patch::Apply(&configuration))
        .await
        .map_err(Error::api(format!("apply ValidatingWebhookConfiguration `{name}`")))?;
    Ok(())
}

/// Makes the API server stop asking. This is for removing the provider for good.
pub async fn remove(platform: &Platform) -> Result<()> {
    let name = webhook_name(platform);
    match all(platform).delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube_client::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("delete ValidatingWebhookConfiguration `{name}`"))(error)),
    }
}

fn all(platform: &Platform) -> Api<ValidatingWebhookConfiguration> {
    Api::all(platform.client())
}
