//! Rights of the reference's accounts, which end by the command of docs/switching.md.

use depguard_e2e::{Api, Cast, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../docs/switching.md");
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ACCOUNT: &str = "system:serviceaccount:dependency-system:dependency-webhook";

/// Place in which the reference's manifests grant rights.
#[derive(Clone, Copy)]
enum Place {
    Root,
    OwnWorkspace,
    Shards,
    Consumer,
}

/// Places with the roles that several versions of the reference have there, and what a role allows.
fn old_roles() -> [(Place, &'static str, Value); 7] {
    let allow =
        |group, resource, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let enter = allow("core.kcp.io", "workspaces/content", &["access"]);
    let content = allow("apis.kcp.io", "apiexports/content", &["get", "list", "watch"]);
    let configurations =
        allow("admissionregistration.k8s.io", "validatingwebhookconfigurations", &["get", "list", "update"]);
    let everything = allow("*", "*", &["get", "list"]);
    [
        (Place::Root, "dependency-controller", enter),
        (Place::OwnWorkspace, "dependency-controller", content.clone()),
        (Place::OwnWorkspace, "dependency-controller-webhook", content.clone()),
        (Place::Shards, "dependency-controller-webhook", everything.clone()),
        (Place::Shards, "dependency-controller-webhook-apiexport-reader", content),
        (Place::Shards, "dependency-controller-webhook-installer", configurations),
        (Place::Consumer, "dependency-controller-webhook", everything),
    ]
}

impl Place {
    async fn apis(self, world: &World, cast: &Cast) -> Outcome<Vec<Api>> {
        match self {
            Place::Root => Ok(vec![world.admin("root")]),
            Place::OwnWorkspace => Ok(vec![world.own_cluster()]),
            Place::Shards => world.shard_admins().await,
            Place::Consumer => Ok(vec![cast.consumer.api.clone()]),
        }
    }
}

/// Grants what the reference's manifests grant, and waits until its webhook may read Secrets in the consumer's
/// workspace.
pub(crate) async fn grant(world: &World, cast: &Cast) -> Outcome {
    for (place, name, rule) in old_roles() {
        for api in place.apis(world, cast).await? {
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": [rule],
            });
            api.post(&format!("{RBAC}/clusterroles"), &role).await?.ok_or_there()?;
            bind(&api, name, name).await?;
        }
    }
    bind(&cast.consumer.api, "enters", "system:kcp:workspace:access").await?;
    until(world, cast, true).await
}

/// Deletes the roles and bindings that the page names in each place, and waits until the right is gone.
pub(crate) async fn withdraw(world: &World, cast: &Cast) -> Outcome {
    let names = names()?;
    for (place, old, _) in old_roles() {
        for api in place.apis(world, cast).await? {
            for (kind, name) in ["clusterrolebindings", "clusterroles"]
                .iter()
                .flat_map(|kind| names.iter().map(move |name| (kind, name)))
            {
                let reply = api.delete(&format!("{RBAC}/{kind}/{name}")).await?;
                if !reply.is_gone() {
                    reply.ok()?;
                }
            }
            let left = api.get(&format!("{RBAC}/clusterroles/{old}")).await?;
            ensure(left.is_gone(), || format!("docs/switching.md does not name ClusterRole {old}"))?;
        }
    }
    until(world, cast, false).await
}

/// Returns the names in the page's command.
fn names() -> Outcome<Vec<&'static str>> {
    let line = PAGE.lines().find_map(|line| line.strip_prefix("$ names='")?.strip_suffix('\''));
    Ok(line
        .ok_or_else(|| Stop::failed("docs/switching.md has no line with the names of the old roles"))?
        .split(' ')
        .collect())
}

async fn bind(api: &Api, name: &str, role: &str) -> Outcome {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": ACCOUNT}],
    });
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await?.ok_or_there()
}

/// Waits until the reference's webhook may, or may not, list Secrets in the consumer's workspace.
async fn until(world: &World, cast: &Cast, expected: bool) -> Outcome {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": ACCOUNT, "groups": ["system:authenticated"],
            "resourceAttributes": {"verb": "list", "version": "v1", "resource": "secrets"},
        },
    });
    eventually("the old webhook's right is as it should be", world.patience(), async || {
        let answer = cast.consumer.api.post(REVIEWS, &review).await?.ok()?;
        ensure(answer["status"]["allowed"] == expected, || format!("allowed: {}", answer["status"]))
    })
    .await
}
