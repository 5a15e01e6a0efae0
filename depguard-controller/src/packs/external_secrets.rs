//! Rules about External Secrets: stores and generators that are in use, and the credentials of both.

mod credentials;

use depguard_core::ControlPlane;
use serde_json::Value;

use self::credentials::{GENERATORS, PROVIDERS};
use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, out, rule, saying_left_out};
use super::{LeftOut, RulePack};

const GROUP: &str = "external-secrets.io";
const EXTERNAL_SECRET: Kind = Kind::new(GROUP, "v1", "ExternalSecret", "externalsecrets");
const CLUSTER_EXTERNAL_SECRET: Kind = Kind::new(GROUP, "v1", "ClusterExternalSecret", "clusterexternalsecrets");
const PUSH_SECRET: Kind = Kind::new(GROUP, "v1alpha1", "PushSecret", "pushsecrets");
const CLUSTER_PUSH_SECRET: Kind = Kind::new(GROUP, "v1alpha1", "ClusterPushSecret", "clusterpushsecrets");
const SECRET_STORE: Kind = Kind::new(GROUP, "v1", "SecretStore", "secretstores");
const CLUSTER_SECRET_STORE: Kind = Kind::new(GROUP, "v1", "ClusterSecretStore", "clustersecretstores");
const CLUSTER_GENERATOR: Kind = generator("ClusterGenerator", "clustergenerators");
const GENERATOR_STATE: Kind = generator("GeneratorState", "generatorstates");

pub(super) const PACK: RulePack = RulePack {
    name: "external-secrets",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps a SecretStore, ClusterSecretStore or generator that ExternalSecrets and PushSecrets use, the \
               Secrets, ServiceAccounts and ConfigMaps with the credentials of stores and generators, the Secrets \
               that PushSecrets push, and the parts of templates",
    notes: &[
        "Apply the rules in a cluster with the External Secrets Operator.",
        "The rules order a teardown: ExternalSecrets and PushSecrets go first, then their stores, then the \
         credentials of the stores. So a PushSecret whose deletionPolicy is Delete can still delete the copies, and \
         a GeneratorState of GitLab or Grafana the tokens. helm uninstall deletes Secrets first, so run the command \
         again after a refusal.",
        "A ClusterExternalSecret or ClusterPushSecret keeps ClusterSecretStores and ClusterGenerators. The \
         ExternalSecrets and PushSecrets that the operator makes of them keep the objects of their namespaces.",
        "If a ClusterSecretStore names a Secret or ServiceAccount without a namespace, the operator takes the object \
         of that name from the namespace of each ExternalSecret. The rule then keeps the objects of that name in all \
         namespaces, so a namespace with such an object ends only after the store, or after an override. If you have \
         such stores, leave out the rule external-secrets-clustersecretstores.",
        "A ClusterGenerator keeps no credentials, since these are in the namespaces of the ExternalSecrets.",
        "A Secret that a PushSecret pushes stays while the PushSecret exists. If the deletionPolicy is Delete, the \
         operator would delete the pushed copies with the Secret: delete the PushSecret instead.",
    ],
    held_against: "the CustomResourceDefinitions of External Secrets, commit cc5bfbc22 (2026-08-08)",
    rules,
    left_out: &[
        out("externalsecrets", ".spec.data[*].sourceRef.generatorRef", "the operator does not read the field"),
        out("externalsecrets", ".spec.target.name", "the operator writes the Secret"),
        out("externalsecrets", ".spec.target.manifest", "the operator writes the object"),
        out("externalsecrets", ".status.binding.name", "the operator writes the Secret"),
        out(
            "clusterexternalsecrets",
            ".spec.externalSecretSpec.data[*].sourceRef.generatorRef",
            "the operator does not read the field",
        ),
        out(
            "clusterexternalsecrets",
            ".spec.externalSecretSpec.target",
            "the ExternalSecrets made of it count instead",
        ),
        made("clusterexternalsecrets", ".spec.externalSecretName"),
        made("clusterexternalsecrets", ".status.externalSecretName"),
        namespaces("clusterexternalsecrets", ".spec.namespaces[*]"),
        namespaces("clusterexternalsecrets", ".spec.namespaceSelector"),
        namespaces("clusterexternalsecrets", ".spec.namespaceSelectors[*]"),
        namespaces("clusterexternalsecrets", ".status.provisionedNamespaces[*]"),
        namespaces("clusterexternalsecrets", ".status.failedNamespaces[*].namespace"),
        out(
            "pushsecrets",
            ".spec.secretStoreRefs[*].labelSelector",
            "takes the stores that exist; stores with something to clean up stand in the status",
        ),
        out("pushsecrets", ".spec.dataTo[*].storeRef", "names a store that secretStoreRefs must name, too"),
        out("pushsecrets", ".spec.selector.secret.selector", "takes the Secrets that exist"),
        out(
            "clusterpushsecrets",
            ".spec.pushSecretSpec.secretStoreRefs[*].labelSelector",
            "takes the stores that exist",
        ),
        out(
            "clusterpushsecrets",
            ".spec.pushSecretSpec.dataTo[*].storeRef",
            "names a store that secretStoreRefs must name, too",
        ),
        out("clusterpushsecrets", ".spec.pushSecretSpec.selector.secret", "the PushSecrets made of it count instead"),
        out("clusterpushsecrets", ".spec.pushSecretSpec.template", "the PushSecrets made of it count instead"),
        made("clusterpushsecrets", ".spec.pushSecretName"),
        made("clusterpushsecrets", ".status.pushSecretName"),
        namespaces("clusterpushsecrets", ".spec.namespaceSelectors[*]"),
        namespaces("clusterpushsecrets", ".status.provisionedNamespaces[*]"),
        namespaces("clusterpushsecrets", ".status.failedNamespaces[*].namespace"),
        namespaces("secretstores", ".spec.conditions[*]"),
        namespaces("clustersecretstores", ".spec.conditions[*]"),
        elsewhere("secretstores", ".spec.provider.akeyless.authSecretRef.kubernetesAuth.k8sConfName"),
        elsewhere("clustersecretstores", ".spec.provider.akeyless.authSecretRef.kubernetesAuth.k8sConfName"),
        elsewhere("secretstores", ".spec.provider.kubernetes.remoteNamespace"),
        elsewhere("clustersecretstores", ".spec.provider.kubernetes.remoteNamespace"),
        elsewhere("secretstores", ".spec.provider.ngrok.vault.name"),
        elsewhere("clustersecretstores", ".spec.provider.ngrok.vault.name"),
        elsewhere("secretstores", ".spec.provider.onepasswordSDK.integrationInfo.name"),
        elsewhere("clustersecretstores", ".spec.provider.onepasswordSDK.integrationInfo.name"),
        elsewhere("secretstores", ".spec.provider.crd.whitelist.rules[*]"),
        elsewhere("clustersecretstores", ".spec.provider.crd.whitelist.rules[*]"),
        variable("secretstores", ".spec.provider.webhook.secrets[*].name"),
        variable("clustersecretstores", ".spec.provider.webhook.secrets[*].name"),
        variable("webhooks", ".spec.secrets[*].name"),
        elsewhere("gitlabdeploytokens", ".spec.name"),
        elsewhere("grafanas", ".spec.serviceAccount.name"),
        out(
            "clustergenerators",
            ".spec.generator",
            "means the namespaces of ExternalSecrets, and would keep those namespaces",
        ),
    ],
};

const fn made(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "the operator makes the objects of that name")
}

const fn namespaces(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "means namespaces, which may go")
}

const fn elsewhere(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names something in the provider's system")
}

const fn variable(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names a variable of the request")
}

const fn generator(kind: &'static str, resource: &'static str) -> Kind {
    Kind::new("generators.external-secrets.io", "v1alpha1", kind, resource)
}

fn rules() -> Vec<Value> {
    let mut rules = vec![
        saying_left_out(rule("external-secrets-externalsecrets", EXTERNAL_SECRET, external_secret()), PACK.left_out),
        saying_left_out(
            rule("external-secrets-clusterexternalsecrets", CLUSTER_EXTERNAL_SECRET, cluster_external_secret()),
            PACK.left_out,
        ),
        rule("external-secrets-pushsecrets", PUSH_SECRET, push_secret()),
        rule("external-secrets-clusterpushsecrets", CLUSTER_PUSH_SECRET, cluster_push_secret()),
        in_own_namespace("secretstores", rule("external-secrets-secretstores", SECRET_STORE, providers(beside))),
        rule("external-secrets-clustersecretstores", CLUSTER_SECRET_STORE, providers(anywhere)),
        rule("external-secrets-generatorstates", GENERATOR_STATE, generator_state()),
    ];
    for (kind, plural, at, credentials) in GENERATORS {
        let dependencies = credentials.dependencies(at, beside);
        if !dependencies.is_empty() {
            let rule = rule(&format!("external-secrets-{plural}"), generator(kind, plural), dependencies);
            rules.push(in_own_namespace(plural, rule));
        }
    }
    rules
}

/// Returns a rule about credentials beside whose names the operator reads no namespace.
fn in_own_namespace(resource: &'static str, rule: Value) -> Value {
    saying_left_out(
        rule,
        &[out(resource, ".namespace", "the operator reads credentials in the object's own namespace")],
    )
}

fn external_secret() -> Vec<Dependency> {
    let stores = [".spec.secretStoreRef", ".spec.data[*].sourceRef.storeRef", ".spec.dataFrom[*].sourceRef.storeRef"];
    let mut dependencies: Vec<_> =
        stores.into_iter().flat_map(|at| [secret_store(at), cluster_secret_store(at)]).collect();
    dependencies.extend(generators(".spec.dataFrom[*].sourceRef.generatorRef"));
    dependencies.extend(template(".spec.target.template"));
    dependencies
}

fn cluster_external_secret() -> [Dependency; 4] {
    let spec = ".spec.externalSecretSpec";
    [
        cluster_secret_store(&format!("{spec}.secretStoreRef")),
        cluster_secret_store(&format!("{spec}.data[*].sourceRef.storeRef")),
        cluster_secret_store(&format!("{spec}.dataFrom[*].sourceRef.storeRef")),
        of_kind(CLUSTER_GENERATOR, &format!("{spec}.dataFrom[*].sourceRef.generatorRef")),
    ]
}

fn push_secret() -> Vec<Dependency> {
    let stores = ".spec.secretStoreRefs[*]";
    let mut dependencies = vec![
        secret_store(stores),
        cluster_secret_store(stores),
        pushed_to(SECRET_STORE, "^SecretStore/(.+)$"),
        pushed_to(CLUSTER_SECRET_STORE, "^ClusterSecretStore/(.+)$"),
        SECRET.at(".spec.selector.secret.name"),
    ];
    dependencies.extend(generators(".spec.selector.generatorRef"));
    dependencies.extend(template(".spec.template"));
    dependencies
}

fn cluster_push_secret() -> [Dependency; 2] {
    let spec = ".spec.pushSecretSpec";
    [
        cluster_secret_store(&format!("{spec}.secretStoreRefs[*]")),
        of_kind(CLUSTER_GENERATOR, &format!("{spec}.selector.generatorRef")),
    ]
}

/// Returns the references to the credentials with which the operator deletes what a generator has made. The state has a
/// copy of the generator.
fn generator_state() -> [Dependency; 3] {
    let credential = |kind: &str, field: &str| {
        SECRET.at(format!(".spec.resource.spec.auth.{field}.name")).when(".spec.resource.kind", &[kind])
    };
    [
        credential("GitlabDeployToken", "token.secretRef"),
        credential("Grafana", "basic.password"),
        credential("Grafana", "token"),
    ]
}

/// Returns the references of stores to the credentials for their providers.
fn providers(refer: fn(Kind, &str) -> Dependency) -> impl Iterator<Item = Dependency> {
    PROVIDERS
        .into_iter()
        .flat_map(move |(at, credentials)| credentials.dependencies(&format!(".spec.provider.{at}"), refer))
}

/// Returns the references to generators of every kind.
fn generators(at: &str) -> impl Iterator<Item = Dependency> {
    let kinds = GENERATORS.into_iter().map(|(kind, plural, ..)| generator(kind, plural));
    kinds.chain([CLUSTER_GENERATOR]).map(move |kind| of_kind(kind, at))
}

/// Returns the references to the parts of a template.
fn template(at: &str) -> [Dependency; 2] {
    [
        CONFIG_MAP.at(format!("{at}.templateFrom[*].configMap.name")),
        SECRET.at(format!("{at}.templateFrom[*].secret.name")),
    ]
}

/// Returns a reference to a SecretStore, which is meant if there is no kind.
fn secret_store(at: &str) -> Dependency {
    of_kind(SECRET_STORE, at)
}

/// Returns a reference to a ClusterSecretStore.
fn cluster_secret_store(at: &str) -> Dependency {
    CLUSTER_SECRET_STORE.at(format!("{at}.name")).when(format!("{at}.kind"), &["ClusterSecretStore"])
}

/// Returns a reference to the stores from which a PushSecret must delete what it pushed.
fn pushed_to(store: Kind, key: &str) -> Dependency {
    store.at(".status.syncedPushSecrets").keys().pattern(key).when(".spec.deletionPolicy", &["Delete"])
}

fn of_kind(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).kind_at(format!("{at}.kind"))
}

/// Returns a reference to the dependent's own namespace.
fn beside(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name"))
}

/// Returns a reference to the namespace beside the name.
fn anywhere(target: Kind, at: &str) -> Dependency {
    beside(target, at).namespace_at(format!("{at}.namespace"))
}
