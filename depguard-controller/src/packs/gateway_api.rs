//! Rules about Gateway API: the objects that classes, Gateways, routes and policies name.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE, out, rule, without_label};
use super::{LeftOut, RulePack};

const GROUP: &str = "gateway.networking.k8s.io";
const EXPERIMENTAL: &str = "gateway.networking.x-k8s.io";
const GATEWAY_CLASS: Kind = Kind::new(GROUP, "v1", "GatewayClass", "gatewayclasses");
const GATEWAY: Kind = Kind::new(GROUP, "v1", "Gateway", "gateways");
const LISTENER_SET: Kind = Kind::new(GROUP, "v1", "ListenerSet", "listenersets");
const HTTP_ROUTE: Kind = Kind::new(GROUP, "v1", "HTTPRoute", "httproutes");
const GRPC_ROUTE: Kind = Kind::new(GROUP, "v1", "GRPCRoute", "grpcroutes");
const TCP_ROUTE: Kind = Kind::new(GROUP, "v1", "TCPRoute", "tcproutes");
const TLS_ROUTE: Kind = Kind::new(GROUP, "v1", "TLSRoute", "tlsroutes");
const UDP_ROUTE: Kind = Kind::new(GROUP, "v1", "UDPRoute", "udproutes");
const BACKEND_TLS_POLICY: Kind = Kind::new(GROUP, "v1", "BackendTLSPolicy", "backendtlspolicies");
const BACKEND: Kind = Kind::new(EXPERIMENTAL, "v1alpha1", "XBackend", "xbackends");
const MESH: Kind = Kind::new(EXPERIMENTAL, "v1alpha1", "XMesh", "xmeshes");

/// Label of the HTTPRoutes by which cert-manager answers ACME challenges.
const SOLVER_LABEL: &str = "acme.cert-manager.io/http01-solver";

/// Fields of a route's rules that name a backend.
const BACKENDS: &str = ".spec.rules[*].backendRefs[*]";
const MIRRORS: [&str; 2] = [
    ".spec.rules[*].filters[*].requestMirror.backendRef",
    ".spec.rules[*].backendRefs[*].filters[*].requestMirror.backendRef",
];
const AUTHORIZERS: [&str; 2] = [
    ".spec.rules[*].filters[*].externalAuth.backendRef",
    ".spec.rules[*].backendRefs[*].filters[*].externalAuth.backendRef",
];

pub(super) const PACK: RulePack = RulePack {
    name: "gateway-api",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps a GatewayClass that Gateways have, a Gateway or ListenerSet that routes are attached to, a \
               Service or XBackend that gets the traffic of routes, and the Secrets and ConfigMaps with certificates \
               and parameters",
    notes: &[
        "Apply the rules in a cluster with Gateway API. Kinds that are not installed do no harm. A kind that is \
         served, but not in the version that its rule names, has deletions of Services and Gateways refused: for \
         older definitions of TCPRoute, TLSRoute and UDPRoute set dependent.version to v1alpha2.",
        "A reference to another namespace counts, whether or not a ReferenceGrant (or the Gateway's allowedRoutes) \
         permits the reference: a rule can't read a second object. So whoever may create routes or Gateways anywhere \
         can keep a Service, a Secret or a Gateway of any namespace, and with the object its namespace. If your \
         tenants don't trust each other, have an admission policy reject such references, or remove namespacePath \
         from the rules about Gateways, ListenerSets, XBackends and routes: a rule then reads each name as one of \
         the dependent's own namespace.",
        "The rules don't count the HTTPRoutes by which cert-manager answers ACME challenges: cert-manager deletes \
         the Service of such a route first, and could not end the challenge.",
        "Delete routes before their Services and Gateways, and Gateways before their class. helm uninstall deletes \
         Services and Secrets first, so run the command again after a refusal.",
    ],
    held_against: "the CustomResourceDefinitions of Gateway API, experimental channel, commit 4564255ac (2026-08-21)",
    rules,
    left_out: &[
        out("gateways", ".spec.addresses[*].value", "only the implementation knows the meaning of a NamedAddress"),
        out("gateways", ".spec.allowedListeners.namespaces.selector", "selects namespaces, which may go"),
        out(
            "gateways",
            ".spec.listeners[*].allowedRoutes",
            "says which kinds and namespaces may have routes, and needs none",
        ),
        out(
            "listenersets",
            ".spec.listeners[*].allowedRoutes",
            "says which kinds and namespaces may have routes, and needs none",
        ),
        out("httproutes", ".spec.rules[*].filters[*].extensionRef", "names any kind of the implementation"),
        out(
            "httproutes",
            ".spec.rules[*].backendRefs[*].filters[*].extensionRef",
            "names any kind of the implementation",
        ),
        out("grpcroutes", ".spec.rules[*].filters[*].extensionRef", "names any kind of the implementation"),
        out(
            "grpcroutes",
            ".spec.rules[*].backendRefs[*].filters[*].extensionRef",
            "names any kind of the implementation",
        ),
        reported("httproutes", ".status.parents[*].parentRef"),
        reported("grpcroutes", ".status.parents[*].parentRef"),
        reported("tcproutes", ".status.parents[*].parentRef"),
        reported("tlsroutes", ".status.parents[*].parentRef"),
        reported("udproutes", ".status.parents[*].parentRef"),
        out(
            "backendtlspolicies",
            ".spec.targetRefs[*].name",
            "a policy adds to its target, and breaks nothing by waiting for a new one",
        ),
        reported("backendtlspolicies", ".status.ancestors[*].ancestorRef"),
        out(
            "xbackendtrafficpolicies",
            ".spec.targetRefs[*].name",
            "a policy adds to its target, and breaks nothing by waiting for a new one",
        ),
        reported("xbackendtrafficpolicies", ".status.ancestors[*].ancestorRef"),
        reported("xbackends", ".status.parents[*].parentRef"),
        out("referencegrants", ".spec.to[*].name", "a grant permits references, and uses nothing"),
        out("referencegrants", ".spec.from[*].namespace", "a grant permits references, and uses nothing"),
    ],
};

/// Returns the entry of a status that repeats a reference of the spec.
const fn reported(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "a report of the implementation")
}

fn rules() -> Vec<Value> {
    vec![
        rule("gateway-api-gatewayclasses", GATEWAY_CLASS, [anywhere(CONFIG_MAP, ".spec.parametersRef")]),
        rule("gateway-api-gateways", GATEWAY, gateway()),
        rule(
            "gateway-api-listenersets",
            LISTENER_SET,
            [anywhere(GATEWAY, ".spec.parentRef"), anywhere(SECRET, ".spec.listeners[*].tls.certificateRefs[*]")],
        ),
        http_routes(),
        route("gateway-api-grpcroutes", GRPC_ROUTE, [BACKENDS].into_iter().chain(MIRRORS)),
        route("gateway-api-tcproutes", TCP_ROUTE, [BACKENDS]),
        route("gateway-api-tlsroutes", TLS_ROUTE, [BACKENDS]),
        route("gateway-api-udproutes", UDP_ROUTE, [BACKENDS]),
        rule(
            "gateway-api-backendtlspolicies",
            BACKEND_TLS_POLICY,
            [CONFIG_MAP, SECRET].map(|kind| of_kind(kind, ".spec.validation.caCertificateRefs[*]")),
        ),
        rule("gateway-api-xbackends", BACKEND, backend_tls()),
        rule("gateway-api-xmeshes", MESH, [anywhere(CONFIG_MAP, ".spec.parametersRef")]),
    ]
}

fn gateway() -> Vec<Dependency> {
    let mut dependencies = vec![
        GATEWAY_CLASS.at(".spec.gatewayClassName"),
        of_kind(CONFIG_MAP, ".spec.infrastructure.parametersRef"),
        anywhere(SECRET, ".spec.listeners[*].tls.certificateRefs[*]"),
        anywhere(SECRET, ".spec.tls.backend.clientCertificateRef"),
    ];
    for frontend in ["default", "perPort[*].tls"] {
        let at = format!(".spec.tls.frontend.{frontend}.validation.caCertificateRefs[*]");
        dependencies.extend([CONFIG_MAP, SECRET].map(|kind| anywhere(kind, &at)));
    }
    dependencies
}

fn backend_tls() -> Vec<Dependency> {
    let mut dependencies = vec![anywhere(SECRET, ".spec.tls.clientCertificateRef")];
    dependencies.extend([CONFIG_MAP, SECRET].map(|kind| of_kind(kind, ".spec.tls.validation.caCertificateRefs[*]")));
    dependencies
}

fn http_routes() -> Value {
    let backends = [BACKENDS].into_iter().chain(MIRRORS).chain(AUTHORIZERS);
    without_label(route("gateway-api-httproutes", HTTP_ROUTE, backends), SOLVER_LABEL)
}

/// Returns the rule about a kind of routes, whose backends stand at these paths.
///
/// A route of a mesh has a Service as its parent. Such a route only adds to the Service, so the rule does not count it.
fn route(name: &str, kind: Kind, backends: impl IntoIterator<Item = &'static str>) -> Value {
    let parents = [anywhere(GATEWAY, ".spec.parentRefs[*]"), other(LISTENER_SET, ".spec.parentRefs[*]", "ListenerSet")];
    let backends = backends.into_iter().flat_map(|at| [anywhere(SERVICE, at), other(BACKEND, at, "XBackend")]);
    rule(name, kind, parents.into_iter().chain(backends))
}

/// Returns a reference by the object at a path, which has the kind, the group and a namespace. If the object has no
/// kind, the reference counts.
fn anywhere(target: Kind, at: &str) -> Dependency {
    of_kind(target, at).namespace_at(format!("{at}.namespace"))
}

/// Returns a reference to the dependent's own namespace.
fn of_kind(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).kind_at(format!("{at}.kind")).group_at(format!("{at}.group"))
}

/// Returns a reference to a kind that is not the default at that path.
fn other(target: Kind, at: &str, kind: &str) -> Dependency {
    let reference = target.at(format!("{at}.name")).group_at(format!("{at}.group"));
    reference.namespace_at(format!("{at}.namespace")).when(format!("{at}.kind"), &[kind])
}
