//! Webhook of the test, behind which an API server holds a request that depguard has allowed.

use std::convert::Infallible;

use bytes::Bytes;
use depguard_e2e::{Cast, Outcome, Provider, Resource, Stop, World, eventually};
use depguard_testbed::WebhookServer;
use futures::future::try_join_all;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// Time after which an API server gives the gate up, and refuses the request. No gate is closed for as long.
const SECONDS: u64 = 30;

/// Webhook for machines and VPCs that lets some requests wait, refuses others, and allows all the rest.
///
/// An API server asks all webhooks at once, and carries a request out only after all have answered.
pub(crate) struct Gate {
    server: WebhookServer,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Operation and object's name of the requests that wait.
    holds: Vec<(&'static str, String)>,
    /// Operation and object's name of the requests that are refused.
    refuses: Vec<(&'static str, String)>,
    /// Number of requests that wait.
    waiting: usize,
    /// Number of reviews so far.
    reviews: usize,
}

impl Gate {
    /// Installs an open gate, and waits until API servers ask it.
    pub(crate) async fn install(world: &World, cast: &Cast) -> Outcome<Gate> {
        let state = watch::Sender::new(State::default());
        let answering = state.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let state = answering.clone();
            async move { Ok::<_, Infallible>(answer(&state, request).await) }
        });
        let server = WebhookServer::start(service).await.map_err(|error| Stop::Failed(error.to_string()))?;
        let gate = Gate { server, state };
        for (provider, kind) in [(&cast.network, &cast.vpc), (&cast.compute, &cast.vm)] {
            provider.api.post(CONFIGURATIONS, &gate.configuration(world, provider, kind)).await?.ok_or_there()?;
        }
        for kind in [&cast.vpc, &cast.vm] {
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "gate"}});
            let path = format!("{}?dryRun=All", kind.collection(&cast.consumer.namespace));
            eventually("the gate is asked", world.patience(), async || {
                let before = gate.state.borrow().reviews;
                cast.consumer.api.post(&path, &object).await?;
                if gate.state.borrow().reviews > before { Ok(()) } else { Err(Stop::failed("no review came")) }
            })
            .await?;
        }
        Ok(gate)
    }

    /// Lets requests of this operation on objects of this name wait.
    pub(crate) fn close(&self, operation: &'static str, name: &str) {
        self.state.send_modify(|state| state.holds.push((operation, name.to_owned())));
    }

    /// Refuses requests of this operation on objects of this name.
    pub(crate) fn refuse(&self, operation: &'static str, name: &str) {
        self.state.send_modify(|state| state.refuses.push((operation, name.to_owned())));
    }

    /// Lets all requests pass that wait.
    pub(crate) fn open(&self) {
        self.state.send_modify(|state| state.holds.clear());
    }

    /// Waits until so many requests wait.
    pub(crate) async fn until_held(&self, requests: usize, world: &World) -> Outcome {
        let mut state = self.state.subscribe();
        let held = timeout(world.patience(), state.wait_for(|state| state.waiting == requests)).await;
        held.map_err(|_| Stop::failed("no request came to the gate"))?.map(drop).map_err(Into::into)
    }

    /// Removes the gate from the API servers.
    pub(crate) async fn remove(self, world: &World, cast: &Cast) -> Outcome {
        let removals = [&cast.network, &cast.compute].map(async |provider| {
            provider.api.delete(&format!("{CONFIGURATIONS}/{}", name(world, provider))).await?.ok()
        });
        try_join_all(removals).await?;
        self.server.stop().await;
        Ok(())
    }

    fn configuration(&self, world: &World, provider: &Provider, kind: &Resource) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name(world, provider)},
            "webhooks": [{
                "name": "gate.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": SECONDS, "failurePolicy": "Fail",
                "clientConfig": {"url": self.server.url(), "caBundle": self.server.ca_bundle()},
                "rules": [{
                    "apiGroups": [kind.group], "apiVersions": ["*"], "resources": [kind.plural],
                    "operations": ["CREATE", "DELETE"],
                }],
            }],
        })
    }
}

fn name(world: &World, provider: &Provider) -> String {
    format!("gate-{}-{}", world.id(), provider.export)
}

async fn answer(state: &watch::Sender<State>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let review = &review["request"];
    state.send_modify(|state| state.reviews += 1);
    let is_in = |requests: &[(&'static str, String)]| {
        requests.iter().any(|(operation, name)| review["operation"] == *operation && review["name"] == *name)
    };
    let is_held = |state: &State| is_in(&state.holds);
    let (waits, is_allowed) = (is_held(&state.borrow()), !is_in(&state.borrow().refuses));
    if waits {
        state.send_modify(|state| state.waiting += 1);
        // The sender lives as long as this request.
        state.subscribe().wait_for(|state| !is_held(state)).await.ok();
        state.send_modify(|state| state.waiting -= 1);
    }
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["uid"], "allowed": is_allowed},
    });
    Response::new(Full::new(Bytes::from(answer.to_string())))
}
