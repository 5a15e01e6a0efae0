//! The command line, run by a user with a kubeconfig of the consumer.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Cast, Consumer, Depguard, Outcome, Reference, Resource, Stop, World, ensure, eventually};
use depguard_kcp::{ConnectOptions, Connection};
use kubectl_depguard::{ExitStatus, Terminal};
use serde_json::{Value, json};

use crate::deletion::{guarded, one_reference};

pub(crate) async fn why(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    consumer.create_target(&cast.vpc, "b").await?;
    let vpc = full_name(&cast.vpc);

    let said = administrator(&world, &cast)?.run(&["why", &vpc, "a"]).await;
    said.is(ExitStatus::Finding, &["vpcs/a is blocked by 1", "VirtualMachine/m1", "machines", ".spec.vpcRef.name"])?;
    let said = administrator(&world, &cast)?.run(&["why", &vpc, "b"]).await;
    said.is(ExitStatus::Well, &["nothing blocks the deletion of b", "vpcs/b"])?;
    if !world.is_control() {
        // If the user may not read the rules, the command asks the webhook itself by a dry run.
        consumer.as_tenant(&world).await?;
        let said = tenant(&world, &cast)?.run(&["why", &vpc, "a"]).await;
        said.is(ExitStatus::Finding, &["vpcs/a is blocked by 1", "VirtualMachine/m1", "a dry run"])?;
    }
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;

    consumer.delete(&world, &cast.vm, "m1").await?;
    let said = administrator(&world, &cast)?.run(&["why", &vpc, "a"]).await;
    said.is(ExitStatus::Well, &["nothing blocks the deletion of a", "vpcs/a"])?;
    consumer.delete(&world, &cast.vpc, "a").await
}

/// Asks about objects that hang, and about one that a policy protects.
pub(crate) async fn why_hanging(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = cast.consumer.in_namespace(&world, "hanging").await?;
    let (namespace, user) = (&consumer.namespace, User::at(&world, &consumer.path, &consumer.namespace)?);
    let of = |resource: &str| format!("{}/{resource}", consumer.namespace_path());
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});

    // The API server itself puts the finalizer on a claim.
    let mut claim = named("PersistentVolumeClaim", "data");
    claim["spec"] = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    consumer.api.post(&of("persistentvolumeclaims"), &claim).await?.ok()?;
    consumer.api.post(&of("serviceaccounts"), &named("ServiceAccount", "default")).await?.ok_or_there()?;
    let mut pod = named("Pod", "web");
    pod["spec"] = json!({
        "nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [{"name": "a", "image": "a"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    consumer.api.post(&of("pods"), &pod).await?.ok()?;
    let parts = ["persistentvolumeclaims/data would stay", "holds: Pod/web uses the claim", "kube-controller-manager"];
    user.run(&["why", "pvc", "data"]).await.is(ExitStatus::Finding, &parts)?;
    consumer.api.delete(&of("persistentvolumeclaims/data")).await?.ok()?;
    let parts = ["hangs: persistentvolumeclaims/data has been terminating since", "holds: Pod/web uses the claim"];
    user.run(&["why", "pvc", "data"]).await.is(ExitStatus::Finding, &parts)?;

    policy_refuses(&world, &consumer, &user).await?;

    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    eventually("the namespace says what remains", world.patience(), async || {
        let lingers = "holds: being deleted, without finalizers: Pod/";
        let parts = ["hangs: namespaces/", "condition NamespaceDeletion", "of PersistentVolumeClaim/", lingers];
        user.run(&["why", &format!("ns/{namespace}")]).await.is(ExitStatus::Finding, &parts)
    })
    .await?;
    // No kubelet ends the Pod, and this cluster has no controller that releases claims.
    let at_once = json!({"gracePeriodSeconds": 0});
    consumer.api.delete_with(&of("pods/web"), &at_once).await?;
    let released = json!({"metadata": {"finalizers": null}});
    consumer.api.merge(&of("persistentvolumeclaims/data"), &released).await?.ok()?;
    consumer.gone(&world, &consumer.namespace_path()).await
}

/// Asks about a ConfigMap whose deletion a policy forbids.
async fn policy_refuses(world: &World, consumer: &Consumer, user: &User) -> Outcome {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let (maps, name) = (format!("{}/configmaps", consumer.namespace_path()), format!("keep-{}", world.id()));
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    consumer.api.post(&maps, &map("kept")).await?.ok()?;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": consumer.namespace}},
                "resourceRules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["configmaps"]}],
            },
            "validations": [{"expression": "false", "message": "this one stays"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    consumer.api.post(POLICIES, &policy).await?.ok()?;
    consumer.api.post(BINDINGS, &binding).await?.ok()?;
    let said = eventually("the policy refuses", world.patience(), async || {
        let said = user.run(&["why", "cm", "kept"]).await;
        said.is(ExitStatus::Finding, &[&format!("is refused by {name}"), "this one stays"]).map(|()| said)
    })
    .await?;
    ensure(!said.out.contains("may refuse"), || said.out.clone())?;
    consumer.api.delete(&format!("{BINDINGS}/{name}")).await?.ok()?;
    consumer.api.delete(&format!("{POLICIES}/{name}")).await?.ok()?;
    eventually("nothing refuses any more", world.patience(), async || {
        user.run(&["why", "cm", "kept"]).await.is(ExitStatus::Well, &["free: ", "the deletion of kept"])
    })
    .await
}

pub(crate) async fn impact(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &machines(&cast)).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    for (name, vpc) in [("m1", "a"), ("m2", "b"), ("m3", "a")] {
        consumer.create_dependent(&cast.vm, name, vpc).await?;
    }
    let machine = |name: &str| format!("VirtualMachine/{}/{name}", consumer.namespace);
    let said = administrator(&world, &cast)?.run(&["impact", &full_name(&cast.vpc), "a"]).await;
    said.is(ExitStatus::Well, &[&machine("m1"), &machine("m3"), "2 objects depend on"])?;
    ensure(!said.out.contains("m2"), || said.out.clone())
}

pub(crate) async fn dangling(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &machines(&cast)).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    let user = administrator(&world, &cast)?;
    user.run(&["dangling"]).await.is(ExitStatus::Well, &[])?;
    consumer.create_dependent(&cast.vm, "m2", "gone").await?;
    let said = user.run(&["dangling"]).await;
    let missing = format!("VPC/{}/gone", consumer.namespace);
    said.is(ExitStatus::Finding, &["machines", "/m2", "spec.vpcRef.name", &missing])?;
    ensure(!said.out.contains("/m1"), || said.out.clone())
}

pub(crate) async fn dangling_counted(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.grant_counting(&[&cast.vm, &cast.vpc, &cast.region]).await?;
    let edges = [(&cast.vpc, ".spec.vpcRef.name"), (&cast.region, ".spec.regions[*]")];
    let mut machines = rule("machines", &cast.vm, &edges);
    for dependency in machines["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
        (dependency["onDelete"], dependency["onMissing"]) = (json!("Audit"), json!("Audit"));
    }
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    let (consumer, user) = (&cast.consumer, administrator(&world, &cast)?);
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_target(&cast.region, "north").await?;
    // From then on no creation is told to wait.
    world.condition(&cast.compute, "machines", "Enforced", "True").await?;
    let spec = |vpc: &str, regions: &[&str]| json!({"vpcRef": {"name": vpc}, "regions": regions});
    consumer.create(&cast.vm, "m1", spec("a", &["north", "north"])).await?;
    counted(&world, &cast, &user, 0).await?;
    consumer.create(&cast.vm, "m2", spec("gone", &["north", "south", "south"])).await?;
    counted(&world, &cast, &user, 2).await?;
    consumer.delete(&world, &cast.vpc, "a").await?;
    counted(&world, &cast, &user, 3).await?;
    consumer.create_target(&cast.vpc, "gone").await?;
    consumer.create_target(&cast.region, "south").await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    counted(&world, &cast, &user, 0).await
}

/// Waits until the rule's status has this number of references without a target, and holds the named ones against the
/// ones that `kubectl depguard dangling` lists.
async fn counted(world: &World, cast: &Cast, user: &User, count: usize) -> Outcome {
    let status = if count == 0 { "True" } else { "False" };
    world.condition(&cast.compute, "machines", "TargetsExist", status).await?;
    depguard_e2e::eventually("the references are counted", world.patience(), async || {
        let rule = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
        let shown = &rule["status"]["danglingReferences"];
        ensure(shown["count"] == count, || format!("the count is {shown}"))?;
        let listed = user.run(&["dangling", "-o", "json"]).await;
        listed.is(if count == 0 { ExitStatus::Well } else { ExitStatus::Finding }, &[])?;
        let listed: Value = serde_json::from_str(&listed.out)?;
        let ours = |one: &&Value| one["namespace"] == *cast.consumer.namespace;
        let of = |dependent: &Value, one: &Value| {
            let (field, target) = (&one["field"], &one["target"]);
            [&dependent["namespace"], &dependent["name"], field, &target["namespace"], &target["name"]]
                .map(|part| part.as_str().unwrap_or_default().to_owned())
        };
        let shown: BTreeSet<_> =
            shown["first"].as_array().into_iter().flatten().filter(ours).map(|one| of(one, one)).collect();
        let listed: BTreeSet<_> =
            listed["dangling"].as_array().into_iter().flatten().map(|one| of(&one["dependent"], one)).collect();
        ensure(shown.len() == count && shown == listed, || format!("{shown:?} are counted, {listed:?} listed"))
    })
    .await
}

pub(crate) async fn order(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    let user = administrator(&world, &cast)?;
    let said = user.run(&["order", "-o", "name"]).await;
    said.is(ExitStatus::Well, &[])?;
    let expected = [format!("{}/m1", full_name(&cast.vm)), format!("{}/a", full_name(&cast.vpc))];
    ensure(said.out.lines().eq(&expected), || format!("the order is\n{}", said.out))?;
    // The API server accepts each wave; it would refuse any other order.
    user.run(&["order", "--delete", "--yes"]).await.is(ExitStatus::Well, &[])?;
    consumer.gone(&world, &consumer.object(&cast.vm, "m1")).await?;
    consumer.gone(&world, &consumer.object(&cast.vpc, "a")).await
}

pub(crate) async fn lint(world: Arc<World>) -> Outcome {
    let cast = with_schemas(&world).await?;
    tokio::try_join!(world.bind_depguard(&cast.network), world.bind_depguard(&cast.compute))?;
    let wrong = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.nmae")]);
    world.add_rule(&cast.compute, &wrong).await?;
    let provider = User::at(&world, &cast.compute.path, "default")?;
    let said = provider.run(&["lint", "--live"]).await;
    said.is(ExitStatus::Finding, &["machines", "nmae", ".spec.vpcRef.name"])?;
    world.change_rule(&cast.compute, "machines", &json!({"spec": machines(&cast)["spec"]})).await?;
    provider.run(&["lint", "--live"]).await.is(ExitStatus::Well, &[])
}

pub(crate) async fn status(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    for condition in ["ResolvedRefs", "Enforced"] {
        world.condition(&cast.compute, "machines", condition, "True").await?;
    }
    let operator = User::at(&world, &world.own_path(), "depguard-system")?;
    // All is well but that nothing shows whether the controller runs: it needs no Lease, and has no pod.
    let unseen = operator.run(&["status"]).await;
    unseen.is(ExitStatus::Failure, &["machines"])?;
    ensure(unseen.err.contains("nothing shows that the controller"), || unseen.err.clone())?;
    if !world.is_kcp() {
        sleeping(&world, &cast, &operator).await?;
    }
    depguard.kill_webhook();
    depguard.stop_controller().await;
    depguard.look_again_after(Duration::from_secs(1));
    depguard.start_controller().await?;
    world.condition(&cast.compute, "machines", "Enforced", "False").await?;
    operator.run(&["status"]).await.is(ExitStatus::Finding, &["machines"])
}

/// Checks what is said of a rule about a group that nobody serves, and of one whose group is misspelt.
async fn sleeping(world: &World, cast: &Cast, operator: &User) -> Outcome {
    let mut rule = machines(cast);
    rule["metadata"]["name"] = "asleep".into();
    rule["spec"]["dependent"]["group"] = format!("absent.{}", cast.vm.group).into();
    world.add_rule(&cast.compute, &rule).await?;
    world.reason(&cast.compute, "asleep", "Enforced", "Dormant").await?;
    let said = operator.run(&["status"]).await;
    // No problem, as without it.
    said.is(ExitStatus::Failure, &["False (Dormant)"])?;
    ensure(said.err.contains("found no problem, but nothing shows that the controller"), || said.err.clone())?;
    ensure(said.err.contains("1 rule sleeps until its kinds are installed"), || said.err.clone())?;
    let misspelt = json!({"spec": {"dependent": {"group": format!("{}x", cast.vm.group)}}});
    world.change_rule(&cast.compute, "asleep", &misspelt).await?;
    world.reason(&cast.compute, "asleep", "Enforced", "KindNotFound").await?;
    operator.run(&["status"]).await.is(ExitStatus::Finding, &["False (KindNotFound)"])?;
    world.remove_rule(&cast.compute, "asleep").await
}

pub(crate) async fn graph(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &machines(&cast)).await?;
    let said = administrator(&world, &cast)?.run(&["graph", "-o", "mermaid"]).await;
    said.is(ExitStatus::Well, &["VirtualMachine", "VPC", "machines: ", "spec.vpcRef.name"])
}

pub(crate) async fn suggest(world: Arc<World>) -> Outcome {
    let cast = with_schemas(&world).await?;
    let said =
        administrator(&world, &cast)?.run(&["suggest", "--live", "--min-confidence", "high", "-o", "json"]).await;
    said.is(ExitStatus::Well, &[])?;
    let said: Value = serde_json::from_str(&said.out)?;
    let own = said["proposals"].as_array().into_iter().flatten();
    let own = own.map(|proposal| &proposal["rule"]).find(|rule| rule["spec"]["dependent"]["group"] == cast.vm.group);
    let suggested = own.ok_or_else(|| Stop::failed(format!("no rule about machines: {said}")))?;
    let mut expected = machines(&cast);
    expected["metadata"] = suggested["metadata"].clone();
    expected["spec"]["dependencies"][0]["kind"] = "VPC".into();
    ensure(*suggested == expected, || format!("it suggests {suggested}, not {expected}"))?;
    // The API server accepts the suggested rule as it is.
    tokio::try_join!(world.bind_depguard(&cast.network), world.bind_depguard(&cast.compute))?;
    world.add_rule(&cast.compute, suggested).await
}

/// Imports a rule on a service cluster, where a sync agent leaves the Secret of a Certificate.
pub(crate) async fn import(world: Arc<World>) -> Outcome {
    let place = world.provider("", "cert-manager.io", vec![Resource::namespaced("Certificate")]).await?;
    let certificate = place.kind("Certificate")?;
    let secret = Resource { group: String::new(), versions: &["v1"], ..Resource::namespaced("Secret") };
    let consumer = world.consumer("consumer", &[&place]).await?;
    let published = json!({
        "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource", "metadata": {"name": "certificates"},
        "spec": {
            "resource": {"apiGroup": certificate.group, "kind": "Certificate", "versions": certificate.versions},
            "related": [{"identifier": "tls-secret", "origin": "service", "version": "v1", "resource": "secrets",
                "object": {"reference": {"path": "spec.secretName"}}}],
        },
    });
    let file = tempfile::Builder::new().suffix(".json").tempfile()?;
    std::fs::write(file.path(), published.to_string())?;
    let said = run(&["import", "published-resource", "-o", "json", "-f", &file.path().display().to_string()], []).await;
    said.is(ExitStatus::Well, &["certificates"])?;
    let said: Value = serde_json::from_str(&said.out)?;
    for rule in said["rules"].as_array().into_iter().flatten() {
        world.add_rule(&place, rule).await?;
    }
    for name in ["tls-secret", "other"] {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        consumer.api.post(&secret.collection(&consumer.namespace), &object).await?.ok()?;
    }
    consumer.create(&certificate, "web", json!({"secretName": "tls-secret"})).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &secret, "tls-secret").await?;
    let refusal = "cannot delete secrets/tls-secret: still referenced by Certificate/web";
    consumer.refused(&world, &secret, "tls-secret", &[refusal]).await?;
    consumer.delete(&world, &secret, "other").await?;
    consumer.delete(&world, &certificate, "web").await?;
    consumer.delete(&world, &secret, "tls-secret").await
}

/// Creates the usual cast; the schema of the machines contains the referring field.
async fn with_schemas(world: &World) -> Outcome<Cast> {
    let network = world.network("providers:network").await?;
    let kinds = vec![
        Resource::namespaced("VirtualMachine").with_reference(Reference::Printed),
        Resource::cluster_scoped("Fleet"),
    ];
    let compute = world.provider("providers:compute", "compute.example.com", kinds).await?;
    world.consume(network, compute).await
}

fn machines(cast: &Cast) -> Value {
    rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])
}

fn full_name(kind: &Resource) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

// === The command line ===

/// A user with a kubeconfig, in a namespace.
pub(crate) struct User {
    kubeconfig: tempfile::NamedTempFile,
    namespace: String,
}

/// Result of a command.
pub(crate) struct CommandOutput {
    command: String,
    status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn administrator(world: &World, cast: &Cast) -> Outcome<User> {
    User::at(world, &cast.consumer.path, &cast.consumer.namespace)
}

fn tenant(world: &World, cast: &Cast) -> Outcome<User> {
    let user = administrator(world, cast)?;
    world.ring().write_tenant_kubeconfig(&cast.consumer.path, user.kubeconfig.path())?;
    Ok(user)
}

impl User {
    /// Returns the administrator in a workspace or in the one cluster.
    pub(crate) fn at(world: &World, workspace: &str, namespace: &str) -> Outcome<Self> {
        let kubeconfig = tempfile::NamedTempFile::new()?;
        world.ring().write_kubeconfig(workspace, kubeconfig.path())?;
        Ok(Self { kubeconfig, namespace: namespace.to_owned() })
    }

    /// Applies an object as a field manager.
    pub(crate) async fn apply(&self, path: &str, object: &Value, manager: &str) -> Outcome {
        let kubeconfig = Some(self.kubeconfig.path().to_owned());
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig);
        let endpoint = Connection::open(&options).await?.own_endpoint();
        Ok(endpoint.apply(path, object, manager, false).await.map(drop)?)
    }

    pub(crate) async fn run(&self, args: &[&str]) -> CommandOutput {
        let place = ["-n", &self.namespace, "--kubeconfig"].map(OsString::from);
        run(args, place.into_iter().chain([self.kubeconfig.path().into()])).await
    }
}

/// Runs a command that reads files, in the user's namespace.
pub(crate) async fn run_on_files(args: &[&str], user: &User) -> CommandOutput {
    run(args, ["-n", &user.namespace].map(OsString::from)).await
}

/// Runs a command with further words at its end.
async fn run(args: &[&str], place: impl IntoIterator<Item = OsString>) -> CommandOutput {
    let (mut terminal, captured) = Terminal::captured("");
    let program = [OsString::from("kubectl-depguard")];
    let all = program.into_iter().chain(args.iter().map(OsString::from)).chain(place);
    let status = kubectl_depguard::run(all, &mut terminal).await;
    CommandOutput { command: args.join(" "), status, out: captured.out(), err: captured.err() }
}

impl CommandOutput {
    pub(crate) fn is(&self, status: ExitStatus, parts: &[&str]) -> Outcome {
        let Self { command, out, err, .. } = self;
        let shown = |what: &str| format!("`{command}`: {what}; it ended with {:?} and said\n{out}{err}", self.status);
        ensure(self.status == status, || shown(&format!("not {status:?}")))?;
        parts.iter().try_for_each(|part| ensure(out.contains(part), || shown(&format!("no `{part}`"))))
    }
}
