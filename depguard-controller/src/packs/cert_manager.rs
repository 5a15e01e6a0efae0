//! Rules about cert-manager: the issuers of Certificates, and the credentials of issuers.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{Dependency, Kind, SECRET, SERVICE_ACCOUNT, out, rule};
use super::{LeftOut, RulePack};

const GROUP: &str = "cert-manager.io";
const CERTIFICATE: Kind = Kind::new(GROUP, "v1", "Certificate", "certificates");
const ISSUER: Kind = Kind::new(GROUP, "v1", "Issuer", "issuers");
const CLUSTER_ISSUER: Kind = Kind::new(GROUP, "v1", "ClusterIssuer", "clusterissuers");
const CHALLENGE: Kind = Kind::new("acme.cert-manager.io", "v1", "Challenge", "challenges");
const INGRESS: Kind = Kind::new("networking.k8s.io", "v1", "Ingress", "ingresses");
const INGRESS_CLASS: Kind = Kind::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses");
const PRIORITY_CLASS: Kind = Kind::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
const GATEWAY: Kind = Kind::new("gateway.networking.k8s.io", "v1", "Gateway", "gateways");
const LISTENER_SET: Kind = Kind::new("gateway.networking.k8s.io", "v1", "ListenerSet", "listenersets");

/// Namespace of the objects that ClusterIssuers name: cert-manager's own, unless a flag says otherwise.
const CLUSTER_RESOURCE_NAMESPACE: &str = "cert-manager";

/// Paths of the names of Secrets in an issuer.
const SECRETS: [&str; 25] = [
    ".spec.ca.secretName",
    ".spec.vault.auth.appRole.secretRef.name",
    ".spec.vault.auth.clientCertificate.secretName",
    ".spec.vault.auth.kubernetes.secretRef.name",
    ".spec.vault.auth.tokenSecretRef.name",
    ".spec.vault.caBundleSecretRef.name",
    ".spec.vault.clientCertSecretRef.name",
    ".spec.vault.clientKeySecretRef.name",
    ".spec.venafi.cloud.apiTokenSecretRef.name",
    ".spec.venafi.ngts.credentialsRef.name",
    ".spec.venafi.tpp.caBundleSecretRef.name",
    ".spec.venafi.tpp.credentialsRef.name",
    ".spec.acme.externalAccountBinding.keySecretRef.name",
    ".spec.acme.solvers[*].dns01.acmeDNS.accountSecretRef.name",
    ".spec.acme.solvers[*].dns01.akamai.accessTokenSecretRef.name",
    ".spec.acme.solvers[*].dns01.akamai.clientSecretSecretRef.name",
    ".spec.acme.solvers[*].dns01.akamai.clientTokenSecretRef.name",
    ".spec.acme.solvers[*].dns01.azureDNS.clientSecretSecretRef.name",
    ".spec.acme.solvers[*].dns01.cloudDNS.serviceAccountSecretRef.name",
    ".spec.acme.solvers[*].dns01.cloudflare.apiKeySecretRef.name",
    ".spec.acme.solvers[*].dns01.cloudflare.apiTokenSecretRef.name",
    ".spec.acme.solvers[*].dns01.digitalocean.tokenSecretRef.name",
    ".spec.acme.solvers[*].dns01.rfc2136.tsigSecretSecretRef.name",
    ".spec.acme.solvers[*].dns01.route53.accessKeyIDSecretRef.name",
    ".spec.acme.solvers[*].dns01.route53.secretAccessKeySecretRef.name",
];

/// Paths of the names of ServiceAccounts in an issuer.
const SERVICE_ACCOUNTS: [&str; 3] = [
    ".spec.vault.auth.aws.serviceAccountRef.name",
    ".spec.vault.auth.kubernetes.serviceAccountRef.name",
    ".spec.acme.solvers[*].dns01.route53.auth.kubernetes.serviceAccountRef.name",
];

/// Paths of the specs of the Pods that answer challenges.
const SOLVER_PODS: [&str; 2] = [
    ".spec.acme.solvers[*].http01.ingress.podTemplate.spec",
    ".spec.acme.solvers[*].http01.gatewayHTTPRoute.podTemplate.spec",
];

pub(super) const PACK: RulePack = RulePack {
    name: "cert-manager",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps an Issuer or ClusterIssuer that Certificates have, and the Secrets, ServiceAccounts, classes, \
               Ingresses and Gateways that issuers and Certificates use",
    notes: &[
        "Apply the rules in a cluster with cert-manager.",
        "ClusterIssuers mean Secrets and ServiceAccounts of the namespace cert-manager. If cert-manager runs in \
         another namespace, or with the flag --cluster-resource-namespace, correct the namespace in the rule \
         cert-manager-clusterissuers.",
        "Delete Certificates before their issuer, and the issuer before its Secrets. The Secret that a Certificate \
         writes may go, since cert-manager writes the Secret again, except while an Issuer uses the Secret as its \
         CA: renew that Certificate with cmctl renew instead.",
        "A Challenge keeps its issuer, and so the credentials for the clean-up, until cert-manager has cleaned up. A \
         Challenge that never succeeds ends with its Certificate.",
        "An issuer that names a Gateway of another namespace keeps the Gateway, whether or not the Gateway lets \
         routes in. A ClusterIssuer that names a Gateway without a namespace keeps the Gateways of that name in all \
         namespaces, also in a namespace that is being deleted.",
    ],
    held_against: "the CustomResourceDefinitions of cert-manager, commit 2d0d7f7f7 (2026-08-22)",
    rules,
    left_out: &[
        out("certificates", ".spec.secretName", "cert-manager writes the Secret"),
        out("certificates", ".status.nextPrivateKeySecretName", "cert-manager writes the Secret"),
        out(
            "certificaterequests",
            ".spec.issuerRef",
            "a request ends soon, and stays as history that no longer needs the issuer",
        ),
        out("orders", ".spec.issuerRef", "an Order ends soon, and stays as history that no longer needs the issuer"),
        out("challenges", ".spec.solver", "a copy from the issuer, which the Challenge keeps, and which counts itself"),
        account_key("issuers"),
        account_key("clusterissuers"),
        solver_webhook("issuers"),
        solver_webhook("clusterissuers"),
        annotated_class("issuers"),
        annotated_class("clusterissuers"),
        out(
            "clusterissuers",
            ".spec.acme.solvers[*].http01.ingress.name",
            "means a namespace of a Certificate, and would keep namespaces",
        ),
        of_solver_pods(".spec.acme.solvers[*].http01.ingress.podTemplate.spec.serviceAccountName"),
        of_solver_pods(".spec.acme.solvers[*].http01.ingress.podTemplate.spec.imagePullSecrets"),
        of_solver_pods(".spec.acme.solvers[*].http01.gatewayHTTPRoute.podTemplate.spec.serviceAccountName"),
        of_solver_pods(".spec.acme.solvers[*].http01.gatewayHTTPRoute.podTemplate.spec.imagePullSecrets"),
    ],
};

const fn account_key(resource: &'static str) -> LeftOut {
    let reason = "cert-manager writes the Secret, unless disableAccountKeyGeneration is set";
    LeftOut { resource, path: ".spec.acme.privateKeySecretRef.name", reason }
}

const fn solver_webhook(resource: &'static str) -> LeftOut {
    let reason = "names an API group, and has settings that only the solver knows";
    LeftOut { resource, path: ".spec.acme.solvers[*].dns01.webhook", reason }
}

const fn annotated_class(resource: &'static str) -> LeftOut {
    let reason = "a class in an annotation, for which no object need exist";
    LeftOut { resource, path: ".spec.acme.solvers[*].http01.ingress.class", reason }
}

const fn of_solver_pods(path: &'static str) -> LeftOut {
    let reason = "means the namespaces of Certificates, and would keep those namespaces";
    LeftOut { resource: "clusterissuers", path, reason }
}

fn rules() -> Vec<Value> {
    let keystores = ["jks", "pkcs12"];
    let passwords = keystores.map(|store| SECRET.at(format!(".spec.keystores.{store}.passwordSecretRef.name")));
    vec![
        rule("cert-manager-certificates", CERTIFICATE, issuers().into_iter().chain(passwords)),
        rule("cert-manager-challenges", CHALLENGE, issuers()),
        rule("cert-manager-issuers", ISSUER, credentials().chain(of_any_issuer()).chain(of_solvers())),
        rule(
            "cert-manager-clusterissuers",
            CLUSTER_ISSUER,
            credentials().map(|one| one.in_namespace(CLUSTER_RESOURCE_NAMESPACE)).chain(of_any_issuer()),
        ),
    ]
}

/// Returns the references to issuers. Without a kind, an Issuer is meant.
fn issuers() -> [Dependency; 2] {
    let issuer = ISSUER.at(".spec.issuerRef.name").kind_at(".spec.issuerRef.kind");
    let cluster_issuer = CLUSTER_ISSUER.at(".spec.issuerRef.name").when(".spec.issuerRef.kind", &["ClusterIssuer"]);
    [issuer, cluster_issuer].map(|one| one.group_at(".spec.issuerRef.group"))
}

/// Returns the references of an issuer to credentials, which are of one namespace.
fn credentials() -> impl Iterator<Item = Dependency> {
    let secrets = SECRETS.into_iter().map(|path| SECRET.at(path));
    secrets.chain(SERVICE_ACCOUNTS.into_iter().map(|path| SERVICE_ACCOUNT.at(path)))
}

/// Returns the references to objects that have no namespace, or whose namespace stands beside the name.
fn of_any_issuer() -> impl Iterator<Item = Dependency> {
    let parents = ".spec.acme.solvers[*].http01.gatewayHTTPRoute.parentRefs[*]";
    let parent = |kind: Kind| {
        let reference = kind.at(format!("{parents}.name")).namespace_at(format!("{parents}.namespace"));
        reference.group_at(format!("{parents}.group"))
    };
    let ingress_class = INGRESS_CLASS.at(".spec.acme.solvers[*].http01.ingress.ingressClassName");
    let gateway = parent(GATEWAY).kind_at(format!("{parents}.kind"));
    let listener_set = parent(LISTENER_SET).when(format!("{parents}.kind"), &["ListenerSet"]);
    let priority_classes = SOLVER_PODS.map(|pod| PRIORITY_CLASS.at(format!("{pod}.priorityClassName")));
    [ingress_class, gateway, listener_set].into_iter().chain(priority_classes)
}

/// Returns the references to the objects that cert-manager uses where it answers challenges: beside the Certificate.
fn of_solvers() -> impl Iterator<Item = Dependency> {
    let ingress = INGRESS.at(".spec.acme.solvers[*].http01.ingress.name");
    let pods = SOLVER_PODS.into_iter().flat_map(|pod| {
        let account = SERVICE_ACCOUNT.at(format!("{pod}.serviceAccountName"));
        [account, SECRET.at(format!("{pod}.imagePullSecrets[*].name"))]
    });
    [ingress].into_iter().chain(pods)
}
