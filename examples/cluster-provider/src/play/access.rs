//! Act about a workspace's kubeconfig: its rights, its life, and its end.

mod holder;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::jiff::Timestamp;
use kube_client::core::params::{DeleteParams, ListParams, PostParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::holder::Holder;
use super::cluster::CLUSTER;
use super::operator;
use super::stage::Stage;
use crate::api::{AccessRequest, AccessRequests, Clusters, DENIED, GRANTED, ObjectRef};
use crate::{Error, Result};

/// Request of the play.
const READER: &str = "reader";
/// Namespace of the workspace that the provider makes.
const APPS: &str = "apps";
/// Role that exists in the workspace already.
const EXISTING: &str = "namespace-reader";

pub(super) async fn act(stage: &Stage) -> Result<()> {
    let inside = workspace(stage).await?;
    let holder = granted(stage, &inside).await?;
    renewed(stage, &holder).await?;
    changed(stage, &holder).await?;
    denied(stage).await?;
    ended(stage, &inside, &holder).await
}

async fn granted<'a>(stage: &'a Stage, inside: &Client) -> Result<Holder<'a>> {
    stage.title("an AccessRequest becomes a kubeconfig that may do what it asks for, and nothing else");
    let existing = json!({
        "metadata": {"name": EXISTING},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}],
    });
    let roles: Api<ClusterRole> = Api::all(inside.clone());
    roles.create(&PostParams::default(), &parse(existing)?).await.map_err(Error::api("make a ClusterRole"))?;
    let references = json!([{"kind": "ClusterRole", "name": EXISTING}]);
    ask(stage, READER, json!({"token": {"permissions": [of_configmaps(&["get", "list"])], "roleRefs": references}}))
        .await?;
    let request = stage.await_phase::<AccessRequests>(&stage.namespace(), READER, GRANTED).await?;
    let holder = Holder::new(stage, &request)?;
    stage.show(&format!("  {}", holder.outline().await?));
    let made = holder::made_in(inside).await?;
    stage.show(&format!("made in the workspace: {}", made.join(", ")));
    if made.is_empty() {
        return Err(Error::Refused("nothing in the workspace says that the provider made it".to_owned()));
    }

    let greeting = json!({"metadata": {"name": "greeting"}, "data": {"hello": "workspace"}});
    let configmaps: Api<ConfigMap> = Api::namespaced(inside.clone(), APPS);
    configmaps.create(&PostParams::default(), &parse(greeting)?).await.map_err(Error::api("make a ConfigMap"))?;
    holder.may("list configmaps in apps", list_configmaps).await?;
    holder.may("list namespaces", list_namespaces).await?;
    holder.must_not("delete the configmap in apps", delete_configmap).await?;
    holder.must_not("list secrets in apps", list_secrets).await?;
    holder.must_not("list configmaps in all namespaces", list_all_configmaps).await?;
    Ok(holder)
}

async fn renewed(stage: &Stage, holder: &Holder<'_>) -> Result<()> {
    let seconds = stage.token_lifetime().as_secs();
    stage.title(&format!("its token lives {seconds} s here: it is renewed before, and the old one ends"));
    let (old, before) = (holder.client().await?, holder.token().await?);
    stage
        .after_a_token("the token is renewed", async || {
            let renewed = holder.token().await? != before;
            Ok(renewed.then_some(()))
        })
        .await?;
    stage.show("the Secret has another token");
    holder.may("list configmaps in apps with the new one", list_configmaps).await?;
    let said = stage
        .after_a_token("the old token is refused", async || match list_configmaps(old.clone()).await {
            Err(kube_client::Error::Api(status)) if status.code == 401 => Ok(Some(status.message)),
            Err(error) => Err(Error::api("list configmaps with the old token")(error)),
            Ok(_) => Ok(None),
        })
        .await?;
    stage.show(&format!("list configmaps in apps with the old one: {said}"));
    Ok(())
}

async fn changed(stage: &Stage, holder: &Holder<'_>) -> Result<()> {
    stage.title("the request is changed: what is no longer asked for is taken away");
    let token = json!({"token": {"permissions": [of_configmaps(&["get"])], "roleRefs": []}});
    operator::write(stage, READER, async |request| {
        stage.platform.patch(&request, json!({"spec": token.clone()})).await
    })
    .await?;
    operator::prepare(stage, READER).await?;
    stage.await_phase::<AccessRequests>(&stage.namespace(), READER, GRANTED).await?;
    holder.may("get the configmap in apps", get_configmap).await?;
    holder.must_not("list configmaps in apps", list_configmaps).await?;
    holder.must_not("list namespaces", list_namespaces).await
}

async fn denied(stage: &Stage) -> Result<()> {
    stage.title("access by OIDC is not what this provider gives, and it says so");
    let oidc = json!({
        "name": "corporate", "issuer": "https://id.example.com", "clientID": "play",
        "roleBindings": [{
            "subjects": [{"kind": "User", "name": "alice"}],
            "roleRefs": [{"kind": "ClusterRole", "name": EXISTING}],
        }],
    });
    ask(stage, "alice", json!({"oidc": oidc})).await?;
    let request = stage.await_phase::<AccessRequests>(&stage.namespace(), "alice", DENIED).await?;
    if let Some(secret) = request.status.and_then(|status| status.secret_ref) {
        return Err(Error::Refused(format!("it is denied, and has the Secret `{}`", secret.name)));
    }
    stage.delete::<AccessRequests>(&stage.namespace(), "alice").await?;
    stage.await_gone::<AccessRequests>(&stage.namespace(), "alice").await
}

async fn ended(stage: &Stage, inside: &Client, holder: &Holder<'_>) -> Result<()> {
    stage.title("the request goes, and everything that was made for it: its kubeconfig is good for nothing");
    let (kept, expires) = (holder.client().await?, holder.expires().await?);
    stage.delete::<AccessRequests>(&stage.namespace(), READER).await?;
    stage.await_gone::<AccessRequests>(&stage.namespace(), READER).await?;
    let said = stage
        .eventually("the kubeconfig ends", async || match list_configmaps(kept.clone()).await {
            // A real server remembers for a while whose token this was. By then the token's user has no rights.
            Err(kube_client::Error::Api(status)) if matches!(status.code, 401 | 403) => Ok(Some(status.message)),
            Err(error) => Err(Error::api("list configmaps with a kubeconfig that was kept")(error)),
            Ok(_) => Ok(None),
        })
        .await?;
    stage.show(&format!("list configmaps in apps with a kubeconfig that was kept: {said}"));
    match (expires.as_second() - Timestamp::now().as_second()).max(0) {
        0 => stage.show("by now its token would have expired, too"),
        left => stage.show(&format!("its token would have lived for another {left} s")),
    }
    holder.is_gone().await?;
    let left = holder::made_in(inside).await?;
    if !left.is_empty() {
        return Err(Error::Refused(format!("left in the workspace: {}", left.join(", "))));
    }
    stage.show("in the workspace is nothing left of it but the namespaces, in which others may have something");
    Ok(())
}

/// Creates a request for access to the play's Cluster, which the operator prepares.
async fn ask(stage: &Stage, name: &str, spec: Value) -> Result<()> {
    let mut request = AccessRequest::new(name, parse(spec)?);
    request.metadata.namespace = Some(stage.namespace());
    request.spec.cluster_ref = Some(ObjectRef { name: CLUSTER.to_owned(), namespace: stage.namespace() });
    stage.create(request).await?;
    operator::prepare(stage, name).await
}

/// Returns a client of the workspace of the play's Cluster, as its administrator.
async fn workspace(stage: &Stage) -> Result<Client> {
    let cluster = stage.there::<Clusters>(&stage.namespace(), CLUSTER).await?;
    let found = stage.workspaces.find(&cluster).await?;
    let workspace = found.ok_or_else(|| Error::Refused(format!("{} has no workspace", cluster.shown())))?;
    stage.workspaces.client(&workspace)
}

fn of_configmaps(verbs: &[&str]) -> Value {
    json!({"namespace": APPS, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]})
}

fn parse<T: DeserializeOwned>(manifest: Value) -> Result<T> {
    serde_json::from_value(manifest)
        .map_err(|error| Error::Refused(format!("a manifest of the play is broken: {error}")))
}

async fn list_configmaps(client: Client) -> kube_client::Result<String> {
    let configmaps: Api<ConfigMap> = Api::namespaced(client, APPS);
    Ok(format!("{} found", configmaps.list(&ListParams::default()).await?.items.len()))
}

async fn list_all_configmaps(client: Client) -> kube_client::Result<String> {
    let configmaps: Api<ConfigMap> = Api::all(client);
    Ok(format!("{} found", configmaps.list(&ListParams::default()).await?.items.len()))
}

async fn list_namespaces(client: Client) -> kube_client::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client);
    Ok(format!("{} found", namespaces.list(&ListParams::default()).await?.items.len()))
}

async fn list_secrets(client: Client) -> kube_client::Result<String> {
    let secrets: Api<Secret> = Api::namespaced(client, APPS);
    Ok(format!("{} found", secrets.list(&ListParams::default()).await?.items.len()))
}

async fn get_configmap(client: Client) -> kube_client::Result<String> {
    let configmaps: Api<ConfigMap> = Api::namespaced(client, APPS);
    Ok(format!("{:?}", configmaps.get("greeting").await?.data.unwrap_or_default()))
}

async fn delete_configmap(client: Client) -> kube_client::Result<String> {
    let configmaps: Api<ConfigMap> = Api::namespaced(client, APPS);
    configmaps.delete("greeting", &DeleteParams::default()).await?;
    Ok("deleted".to_owned())
}
