//! Tests of the adapters against the testbed, over TLS and with real virtual workspaces.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName, LogicalCluster, WorkspacePath};
use depguard_kcp::{
    Allowance, BoundWorkspaces, ConnectOptions, Connection, Endpoint, Preconditions, Reflector, ReflectorOptions,
    Snapshot, Watched, WorkspaceLookup, WorkspaceLookups,
};
use depguard_testbed::{Fault, Options, Place, Testbed, When};
use serde_json::{Value, json};

const EXPORT: &str = "dependencies.opendefense.cloud";
const RULES_PATH: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CONFIGURATIONS_PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const RULES: Watched = Watched::RULES;
const BINDINGS: Watched = Watched::BINDINGS;
const CONFIGURATIONS: Watched = Watched {
    group: "admissionregistration.k8s.io",
    version: "v1",
    plural: "validatingwebhookconfigurations",
    kind: "ValidatingWebhookConfiguration",
    required: true,
    names: Some("dependency-controller"),
    fields: None,
};

async fn connect(testbed: &Testbed, cluster: &str, user: &str, control_plane: ControlPlane) -> Connection {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), testbed.kubeconfig(cluster, user)).unwrap();
    let options = ConnectOptions::new(control_plane).kubeconfig(file.path().to_owned());
    Connection::open(&options).await.unwrap()
}

fn path(path: &str) -> WorkspacePath {
    WorkspacePath::parse(path).unwrap()
}

/// Repeats an attempt until it succeeds: a new binding is not served at once.
async fn until<T, E: std::fmt::Debug>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..2400 {
        if let Ok(done) = attempt().await {
            return done;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    attempt().await.unwrap()
}

async fn make_workspace(connection: &Connection, parent: &str, name: &str) {
    let workspace = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {},
    });
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    connection.workspace(&path(parent)).post_json(workspaces, &workspace).await.unwrap();
    let made = path(&format!("{parent}:{name}"));
    until(async || match connection.look_up(&made).await {
        WorkspaceLookup::Found { phase, .. } if phase == "Ready" => Ok(()),
        other => Err(other),
    })
    .await;
}

/// Creates depguard's export in `root:dep-ctrl`, as a kcp has it.
async fn make_export(connection: &Connection) {
    make_workspace(connection, "root", "dep-ctrl").await;
    let own = connection.workspace(&path("root:dep-ctrl"));
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.dependencyrules.{EXPORT}")},
        "spec": {
            "group": EXPORT, "scope": "Cluster", "names": names(),
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }],
        },
    });
    own.post_json("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema).await.unwrap();
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": EXPORT},
        "spec": {
            "resources": [{
                "group": EXPORT, "name": "dependencyrules", "schema": format!("v1.dependencyrules.{EXPORT}"),
                "storage": {"crd": {}},
            }],
            "permissionClaims": [{
                "group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations",
                "verbs": ["*"],
            }],
        },
    });
    own.post_json("/apis/apis.kcp.io/v1alpha2/apiexports", &export).await.unwrap();
}

async fn bind(workspace: &Endpoint) {
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "depguard"},
        "spec": {
            "reference": {"export": {"path": "root:dep-ctrl", "name": EXPORT}},
            "permissionClaims": [{
                "group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations",
                "verbs": ["*"], "state": "Accepted", "selector": {"matchAll": true},
            }],
        },
    });
    workspace.post_json("/apis/apis.kcp.io/v1alpha2/apibindings", &binding).await.unwrap();
}

fn names() -> Value {
    json!({
        "kind": "DependencyRule", "listKind": "DependencyRuleList",
        "plural": "dependencyrules", "singular": "dependencyrule",
    })
}

fn rule(name: &str) -> Value {
    json!({
        "apiVersion": format!("{EXPORT}/v1alpha1"), "kind": "DependencyRule",
        "metadata": {"name": name}, "spec": {"any": "thing"},
    })
}

fn reflector(connection: &Connection, control_plane: ControlPlane, watched: Vec<Watched>) -> Reflector {
    let export_name = ExportName::parse(EXPORT).unwrap();
    Reflector::start(
        connection.clone(),
        ReflectorOptions { control_plane, export_name, watched, allowance: Allowance::DEFAULT },
    )
    .0
}

async fn once(reflector: &Reflector, what: &str, expected: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut states = reflector.subscribe();
    let waited = tokio::time::timeout(Duration::from_secs(20), states.wait_for(|state| expected(state))).await;
    let Ok(Ok(state)) = waited else { panic!("never {what}: {:?}", reflector.state()) };
    state.clone()
}

/// Returns the logical cluster and name of each rule.
fn rules(state: &Snapshot) -> BTreeSet<(Option<LogicalCluster>, String)> {
    state.resource("dependencyrules").unwrap().objects.keys().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_all_workspaces_are_followed_through_the_exports_virtual_workspace() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let connection = connect(&testbed, "root:dep-ctrl", "admin", ControlPlane::Kcp).await;
    make_export(&connection).await;
    let reflector = reflector(&connection, ControlPlane::Kcp, vec![RULES, BINDINGS, CONFIGURATIONS]);
    let state = once(&reflector, "loaded without a binding", Snapshot::is_loaded).await;
    assert!(rules(&state).is_empty());

    make_workspace(&connection, "root", "providers").await;
    let mut clusters = BTreeSet::new();
    for name in ["network", "compute"] {
        make_workspace(&connection, "root:providers", name).await;
        let at = path(&format!("root:providers:{name}"));
        bind(&connection.workspace(&at)).await;
        until(async || connection.workspace(&at).post_json(RULES_PATH, &rule("same-name")).await).await;
        let WorkspaceLookup::Found { cluster, .. } = connection.look_up(&at).await else { panic!("{at}") };
        clusters.insert((Some(cluster), "same-name".to_owned()));
    }
    let paths = [path("root:providers:network"), path("root:providers:compute")];
    let claims =
        |state: &Snapshot| BoundWorkspaces::read(state.resource("apibindings").unwrap().values()).claims(&paths);
    // Each resource has its own watch, so a binding may arrive after a rule that was written later.
    let complete = |state: &Snapshot| state.is_loaded() && rules(state) == clusters && claims(state).len() == 2;
    let state = once(&reflector, "two rules, and the bindings of their workspaces", complete).await;

    let claims = claims(&state);
    let mut lookups = WorkspaceLookups::default();
    lookups.refresh(&connection, &claims).await;
    let confirmed = lookups.confirmed(&claims);
    let named = claims.keys().map(|path| (confirmed.cluster(path).cloned(), "same-name".to_owned()));
    assert_eq!(named.collect::<BTreeSet<_>>(), clusters);
    assert_eq!(connection.look_up(&path("root:providers:storage")).await, WorkspaceLookup::NotFound);

    // A rule that is written through an object's origin, a virtual workspace, comes back through the reflector.
    let origin = state.resource("dependencyrules").unwrap().objects.values().next().unwrap().origin.clone();
    let gone = clusters.pop_first().unwrap();
    let cluster = connection.at(&origin).unwrap().join(&format!("/clusters/{}", gone.0.as_ref().unwrap()));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"},
    });
    let at = format!("{CONFIGURATIONS_PATH}/dependency-controller");
    cluster.apply(&at, &configuration, "depguard", true).await.unwrap();
    let installed = |state: &Snapshot| {
        let objects = &state.resource("validatingwebhookconfigurations").unwrap().objects;
        objects.contains_key(&(gone.0.clone(), "dependency-controller".to_owned()))
    };
    once(&reflector, "configuration", installed).await;
    cluster.delete(&format!("{RULES_PATH}/same-name"), Preconditions::default()).await.unwrap();
    once(&reflector, "one rule", |state| rules(state) == clusters).await;
    drop(reflector);
    testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_lies_about_its_path_is_found_out_unless_nobody_may_look() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let connection = connect(&testbed, "root:dep-ctrl", "admin", ControlPlane::Kcp).await;
    make_export(&connection).await;
    make_workspace(&connection, "root", "liar").await;
    let liar = connection.workspace(&path("root:liar"));
    let itself = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
    let mut forged = liar.get_json(itself).await.unwrap();
    forged["metadata"]["annotations"]["kcp.io/path"] = json!("root:network");
    liar.put_json(itself, &forged).await.unwrap();
    bind(&liar).await;

    let reflector = reflector(&connection, ControlPlane::Kcp, vec![BINDINGS]);
    let network = path("root:network");
    let claims =
        |state: &Snapshot| BoundWorkspaces::read(state.resource("apibindings").unwrap().values()).claims([&network]);
    let claimed = async |by: usize| {
        let state =
            once(&reflector, "claimed", |state| claims(state).get(&network).is_some_and(|all| all.len() == by)).await;
        claims(&state)
    };
    let mut lookups = WorkspaceLookups::default();
    let alone = claimed(1).await;
    lookups.refresh(&connection, &alone).await;
    assert_eq!(lookups.get(&network), Some(&WorkspaceLookup::NotFound));
    assert_eq!(lookups.confirmed(&alone).cluster(&network), None);

    // Once the real workspace binds, the claims differ, and the path is looked up at once.
    make_workspace(&connection, "root", "network").await;
    bind(&connection.workspace(&network)).await;
    let both = claimed(2).await;
    let looks = testbed.faults().inject(Fault::Latency(Duration::ZERO), When::always().path("/workspaces/network"));
    lookups.refresh(&connection, &both).await;
    let WorkspaceLookup::Found { cluster, .. } = connection.look_up(&network).await else { panic!() };
    assert_eq!(lookups.confirmed(&both).cluster(&network), Some(&cluster));
    lookups.refresh(&connection, &both).await;
    assert_eq!(testbed.faults().hits(looks), Some(2), "one by the first refresh, one by this test");

    testbed.faults().inject(Fault::Forbidden, When::always().path("/workspaces/network"));
    let mut inside = WorkspaceLookups::default();
    inside.refresh(&connection, &both).await;
    assert_eq!(inside.confirmed(&both).cluster(&network), Some(&cluster), "by what is found at the path");
    // A missing right denies the workspace by its path and by its id.
    testbed.faults().inject(Fault::Forbidden, When::always().path("/logicalclusters/cluster"));
    let mut blind = WorkspaceLookups::default();
    blind.refresh(&connection, &both).await;
    assert!(matches!(blind.get(&network), Some(WorkspaceLookup::Unknown { why }) if why.contains("403")));
    assert_eq!(blind.confirmed(&both).cluster(&network), None);
    testbed.stop().await;
}

/// The front-proxy answers for a path that it doesn't know as a shard answers for a missing right.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_denied_leads_to_nobody_who_can_be_read_by_id() {
    let testbed = Testbed::start(Options::kcp().shards(["one", "two"])).await.unwrap();
    let connection = connect(&testbed, "root", "admin", ControlPlane::Kcp).await;
    for (parent, name) in [("root", "liar"), ("root", "team")] {
        make_workspace(&connection, parent, name).await;
    }
    let WorkspaceLookup::Found { cluster: liar, .. } = connection.look_up(&path("root:liar")).await else { panic!() };
    // The account may not read Workspaces.
    testbed.faults().inject(Fault::Forbidden, When::always().path("/apis/tenancy.kcp.io"));
    let look_up = async |claimed: &str, by: &[&str]| {
        let by = by.iter().map(|id| LogicalCluster::parse(id).unwrap()).collect();
        let claims = [(path(claimed), by)].into();
        let mut lookups = WorkspaceLookups::default();
        lookups.refresh(&connection, &claims).await;
        lookups.get(&path(claimed)).cloned().unwrap()
    };
    let is_unknown = |lookup| matches!(lookup, WorkspaceLookup::Unknown { .. });
    let one = [liar.as_str()];
    assert_eq!(look_up("root:team:evil", &one).await, WorkspaceLookup::NotFound);
    assert_eq!(look_up("root:nowhere:evil", &one).await, WorkspaceLookup::NotFound, "nor is its parent known");
    assert!(is_unknown(look_up("root:team:evil", &[]).await), "nobody shows what the account may read");
    assert!(is_unknown(look_up("root:team:evil", &[one[0], "2x3"]).await), "one of two can't be read");
    for (fault, at) in [
        // The account may not read the liar's workspace, so a true claim might be denied, too.
        (Fault::Forbidden, format!("/clusters/{liar}/apis/core.kcp.io")),
        // Whoever knows what is below is away, or nobody there was asked.
        (Fault::InternalError, "/clusters/root:team/apis/core.kcp.io".to_owned()),
        // The look-up failed.
        (Fault::InternalError, "/clusters/root:team:evil/apis/core.kcp.io".to_owned()),
        (Fault::NotFound, "/clusters/root:team:evil/apis/core.kcp.io".to_owned()),
    ] {
        let fault = testbed.faults().inject(fault, When::always().path(&at));
        assert!(is_unknown(look_up("root:team:evil", &one).await), "{at}");
        testbed.faults().clear(fault);
    }
    // Once the workspace is there, it is found.
    testbed.faults().clear_all();
    make_workspace(&connection, "root:team", "evil").await;
    testbed.faults().inject(Fault::Forbidden, When::always().path("/apis/tenancy.kcp.io"));
    assert!(matches!(look_up("root:team:evil", &one).await, WorkspaceLookup::Found { cluster, .. } if cluster != liar));
    testbed.stop().await;
}

/// Writes rules of 75 MB. They are too long for one body, and each page of at most 1 MiB is short enough.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_workspace_writes_is_read_in_small_pages_and_only_what_is_used_is_kept() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let connection = connect(&testbed, "root:dep-ctrl", "admin", ControlPlane::Kcp).await;
    make_export(&connection).await;
    make_workspace(&connection, "root", "evil").await;
    let workspace = connection.workspace(&path("root:evil"));
    bind(&workspace).await;
    until(async || workspace.list_json(RULES_PATH).await).await;
    let flood = (0..300).map(|number| {
        let mut rule = rule(&format!("r{number}"));
        rule["metadata"]["annotations"] = json!({"example.com/note": "x".repeat(250_000)});
        rule
    });
    let evil = Place::new(EXPORT, "v1alpha1", "dependencyrules").workspace("root:evil");
    testbed.fill(&evil, flood).unwrap();
    bind(&connection.own_endpoint()).await;
    let honest = rule("honest");
    until(async || connection.own_endpoint().post_json(RULES_PATH, &honest).await).await;

    let reflector = reflector(&connection, ControlPlane::Kcp, vec![RULES]);
    let state = once(&reflector, "loaded", Snapshot::is_loaded).await;
    assert_eq!(rules(&state).len(), 301);
    let objects = &state.resource("dependencyrules").unwrap().objects;
    assert!(objects.values().all(|object| object.text.read().to_string().len() < 1000 && !object.shortened));
    drop(reflector);
    testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_more_than_its_allowance_is_shortened_alone_and_until_it_has_less() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let connection = connect(&testbed, "root:dep-ctrl", "admin", ControlPlane::Kcp).await;
    make_export(&connection).await;
    make_workspace(&connection, "root", "evil").await;
    let evil = connection.workspace(&path("root:evil"));
    for workspace in [&evil, &connection.own_endpoint()] {
        bind(workspace).await;
        until(async || workspace.post_json(RULES_PATH, &rule("first")).await).await;
    }
    let allowance = Allowance { objects: 2, ..Allowance::DEFAULT };
    let following = |allowance| {
        let (control_plane, export_name) = (ControlPlane::Kcp, ExportName::parse(EXPORT).unwrap());
        let options = ReflectorOptions { control_plane, export_name, watched: vec![RULES], allowance };
        Reflector::start(connection.clone(), options).0
    };
    let shortened = |state: &Snapshot| {
        let objects = &state.resource("dependencyrules").unwrap().objects;
        objects.values().filter(|object| object.shortened).count()
    };
    let reflector = following(allowance);
    once(&reflector, "loaded", |state| state.is_loaded() && rules(state).len() == 2).await;
    for name in ["second", "third"] {
        evil.post_json(RULES_PATH, &rule(name)).await.unwrap();
    }
    once(&reflector, "shortened as it comes", |state| rules(state).len() == 4 && shortened(state) == 3).await;
    let fresh = following(allowance);
    once(&fresh, "shortened as it is listed", |state| state.is_loaded() && shortened(state) == 3).await;
    evil.delete(&format!("{RULES_PATH}/third"), Preconditions::default()).await.unwrap();
    once(&reflector, "one less", |state| rules(state).len() == 3 && shortened(state) == 2).await;
    let fresh = following(allowance);
    once(&fresh, "whole as it is listed anew", |state| state.is_loaded() && shortened(state) == 0).await;
    testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_keep_what_was_loaded_and_never_load_what_is_not_there() {
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let connection = connect(&testbed, "root:dep-ctrl", "admin", ControlPlane::Kcp).await;
    make_export(&connection).await;
    let own = connection.own_endpoint();
    bind(&own).await;
    until(async || own.post_json(RULES_PATH, &rule("a")).await).await;

    let empty = testbed.faults().inject(Fault::EmptyList, When::always().path("dependencyrules"));
    let following = reflector(&connection, ControlPlane::Kcp, vec![RULES]);
    let told =
        |state: &Snapshot| state.not_loaded().is_some_and(|why| why.contains("without metadata.resourceVersion"));
    once(&following, "told that the list shows nothing", told).await;
    testbed.faults().clear(empty);
    once(&following, "loaded", |state| state.is_loaded() && rules(state).len() == 1).await;

    // An open watch goes on while lists fail. A reflector without an open watch knows nothing.
    let failing = testbed.faults().inject(Fault::InternalError, When::always().path("dependencyrules?limit="));
    let late = reflector(&connection, ControlPlane::Kcp, vec![RULES]);
    let told = |state: &Snapshot| state.not_loaded().is_some_and(|why| why.contains("500"));
    once(&late, "told that the list failed", told).await;
    own.post_json(RULES_PATH, &rule("b")).await.unwrap();
    once(&following, "told of the new rule", |state| state.is_loaded() && rules(state).len() == 2).await;
    assert!(!late.state().is_loaded() && testbed.faults().hits(failing) > Some(0));
    testbed.faults().clear(failing);
    once(&late, "loaded", |state| state.is_loaded() && rules(state).len() == 2).await;

    // Known rules stay when the server is gone, and the state shows that they may be old.
    testbed.stop().await;
    let failing = |state: &Snapshot| state.resources()[0].last_error.is_some() && state.slices_error().is_some();
    let state = once(&following, "failing", failing).await;
    assert!(state.is_loaded());
    assert_eq!(rules(&state).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_clusters_rules_are_listed_in_pages_and_followed() {
    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let connection = connect(&testbed, "", "admin", ControlPlane::Kubernetes).await;
    let own = connection.own_endpoint();
    let following = reflector(&connection, ControlPlane::Kubernetes, vec![RULES]);
    let told = |state: &Snapshot| state.not_loaded().is_some_and(|why| why.contains("404"));
    once(&following, "told that there is no such kind", told).await;

    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("dependencyrules.{EXPORT}")},
        "spec": {
            "group": EXPORT, "scope": "Cluster", "names": names(),
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    own.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
    until(async || own.post_json(RULES_PATH, &rule("r0")).await).await;
    for index in 1..501 {
        own.post_json(RULES_PATH, &rule(&format!("r{index}"))).await.unwrap();
    }
    let conflict = own.post_json(RULES_PATH, &rule("r7")).await.unwrap_err();
    assert_eq!((conflict.status(), conflict.reason(), conflict.is_conflict()), (Some(409), "AlreadyExists", true));

    let expired = testbed.faults().inject(Fault::ExpiredContinue, When::always().times(1));
    let list = own.list_json(RULES_PATH).await.unwrap();
    assert_eq!((list.items.len(), testbed.faults().hits(expired)), (501, Some(1)));

    let expected: BTreeSet<_> = (0..501).map(|index| (None, format!("r{index}"))).collect();
    once(&following, "all rules", |state| state.is_loaded() && rules(state) == expected).await;
    testbed.stop().await;
}
