//! Tables of values, and the expected results.

/// Values, and the objects that they must and must not give.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The smallest values of a control plane, to which `set` is added.
    pub(crate) control_plane: &'static str,
    pub(crate) set: &'static [&'static str],
    /// Kind, name, JSON pointer, and the expected value: as a whole, or as one element of a list.
    pub(crate) expected: &'static [(&'static str, &'static str, &'static str, &'static str)],
    pub(crate) absent: &'static [(&'static str, &'static str)],
}

/// Smallest values for Kubernetes.
pub(crate) const KUBERNETES: &str = "image: {repository: example.com/depguard}
tls: {secretName: depguard-tls}
";

/// Smallest values for kcp.
pub(crate) const KCP: &str = "controlPlane: kcp
image: {repository: example.com/depguard}
tls: {secretName: depguard-tls}
kcp: {kubeconfig: {controller: {secretName: controller-kubeconfig}, webhook: {secretName: webhook-kubeconfig}}}
webhook: {url: https://depguard.example.com/validate}
";

const D: &str = "Deployment";
const WEBHOOK: &str = "depguard-webhook";
const CONTROLLER: &str = "depguard-controller";
const ARGS: &str = "/spec/template/spec/containers/0/args";
const VOLUMES: &str = "/spec/template/spec/volumes";

/// Values that the chart accepts.
pub(crate) const RENDERED: &[Case] = &[
    Case {
        name: "plain Kubernetes",
        control_plane: KUBERNETES,
        set: &[],
        expected: &[
            (
                D,
                WEBHOOK,
                "/spec/template/spec/containers/0/image",
                concat!(r#""example.com/depguard:"#, env!("CARGO_PKG_VERSION"), "\""),
            ),
            (D, WEBHOOK, "/spec/template/spec/automountServiceAccountToken", "true"),
            (D, WEBHOOK, "/spec/strategy/rollingUpdate/maxUnavailable", "0"),
            (D, WEBHOOK, ARGS, r#""--control-plane=kubernetes""#),
            (D, WEBHOOK, ARGS, r#""--override-groups=system:masters,system:kcp:admin""#),
            (D, WEBHOOK, ARGS, r#""--read-through=front-proxy""#),
            (D, WEBHOOK, ARGS, r#""--metrics-bind-address=:8080""#),
            (D, WEBHOOK, ARGS, r#""--workspace-max-objects=2000""#),
            (D, CONTROLLER, ARGS, r#""--workspace-max-memory=32""#),
            (D, CONTROLLER, "/spec/strategy/type", r#""Recreate""#),
            (D, CONTROLLER, ARGS, r#""--webhook-service=depguard-system/depguard-webhook:443""#),
            (D, CONTROLLER, ARGS, r#""--webhook-ca-bundle-path=/etc/depguard/ca/ca.crt""#),
            // Only the webhook has the private key.
            (
                D,
                CONTROLLER,
                VOLUMES,
                r#"{"name": "ca", "secret": {"secretName": "depguard-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}"#,
            ),
            ("PodDisruptionBudget", WEBHOOK, "/spec/maxUnavailable", "1"),
            ("NetworkPolicy", WEBHOOK, "/spec/ingress/0", r#"{"ports": [{"port": "reviews"}]}"#),
            ("Service", WEBHOOK, "/spec/ports", r#"[{"name": "reviews", "port": 443, "targetPort": "reviews"}]"#),
            ("Job", "depguard-uninstall", "/metadata/annotations/helm.sh~1hook", r#""pre-delete""#),
            ("Job", "depguard-uninstall", "/spec/template/spec/serviceAccountName", r#""depguard-controller""#),
        ],
        absent: &[("ServiceMonitor", "depguard"), ("PrometheusRule", "depguard"), ("Certificate", WEBHOOK)],
    },
    Case {
        name: "kcp",
        control_plane: KCP,
        set: &[],
        expected: &[
            (D, WEBHOOK, "/spec/template/spec/automountServiceAccountToken", "false"),
            (D, WEBHOOK, ARGS, r#""--control-plane=kcp""#),
            (D, WEBHOOK, ARGS, r#""--kubeconfig=/etc/depguard/kubeconfig/kubeconfig""#),
            (D, WEBHOOK, VOLUMES, r#"{"name": "kubeconfig", "secret": {"secretName": "webhook-kubeconfig"}}"#),
            (D, CONTROLLER, VOLUMES, r#"{"name": "kubeconfig", "secret": {"secretName": "controller-kubeconfig"}}"#),
            (D, CONTROLLER, ARGS, r#""--webhook-url=https://depguard.example.com/validate""#),
            (D, CONTROLLER, ARGS, r#""--api-export-name=dependencies.opendefense.cloud""#),
            ("ServiceAccount", WEBHOOK, "/automountServiceAccountToken", "false"),
            ("Job", "depguard-uninstall", ARGS, r#""uninstall""#),
            ("Job", "depguard-uninstall", ARGS, r#""--control-plane=kcp""#),
        ],
        absent: &[
            ("ClusterRole", WEBHOOK),
            ("CustomResourceDefinition", "dependencyrules.dependencies.opendefense.cloud"),
        ],
    },
    Case {
        name: "locks, the older tool's too, and owners",
        control_plane: KUBERNETES,
        set: &[
            r#"enable=["locks", "owners"]"#,
            r#"compatLockKinds=["pods", "deployments.apps"]"#,
            "owners.precreatedRoles=true",
        ],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--enable=locks,owners""#),
            (D, CONTROLLER, ARGS, r#""--enable=locks,owners""#),
            (D, WEBHOOK, ARGS, r#""--compat-lock-kinds=pods,deployments.apps""#),
            (D, CONTROLLER, ARGS, r#""--compat-lock-kinds=pods,deployments.apps""#),
            (D, CONTROLLER, ARGS, r#""--precreated-roles""#),
        ],
        absent: &[],
    },
    Case {
        name: "the interlock",
        control_plane: KUBERNETES,
        set: &["interlock.registers=16", "interlock.waitSeconds=60", "interlock.allowShortWait=true"],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--reference-registers=16""#),
            (D, CONTROLLER, ARGS, r#""--reference-registers=16""#),
            (D, CONTROLLER, ARGS, r#""--interlock-wait=60""#),
            (D, CONTROLLER, ARGS, r#""--allow-short-interlock-wait""#),
        ],
        absent: &[],
    },
    Case {
        name: "the base URL of kcp, and another export",
        control_plane: KCP,
        set: &[r#"kcp.baseHost="https://kcp.example.com""#, r#"kcp.apiExportName="rules.example.com""#],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--kcp-base-host=https://kcp.example.com""#),
            (D, CONTROLLER, ARGS, r#""--api-export-name=rules.example.com""#),
            ("Job", "depguard-uninstall", ARGS, r#""--kcp-base-host=https://kcp.example.com""#),
        ],
        absent: &[],
    },
    Case {
        name: "a certificate of cert-manager, with a CA of its own",
        control_plane: KUBERNETES,
        set: &[r#"tls={"secretName": "", "certManager": {"enabled": true}}"#],
        expected: &[
            ("Certificate", WEBHOOK, "/spec/dnsNames", r#""depguard-webhook.depguard-system.svc""#),
            ("Certificate", WEBHOOK, "/spec/issuerRef", r#"{"kind": "Issuer", "name": "depguard-ca"}"#),
            ("Certificate", WEBHOOK, "/spec/secretName", r#""depguard-webhook-tls""#),
            ("Certificate", "depguard-ca", "/spec/isCA", "true"),
            ("Issuer", "depguard-ca", "/spec/ca/secretName", r#""depguard-ca""#),
            (D, WEBHOOK, "/spec/template/spec/volumes/0/secret/secretName", r#""depguard-webhook-tls""#),
        ],
        absent: &[],
    },
    Case {
        name: "a certificate of a given issuer, for the host of a URL",
        control_plane: KCP,
        set: &[
            r#"tls={"secretName": "", "caKey": "", "certManager": {"enabled": true, "issuerRef": {"kind": "ClusterIssuer", "name": "public"}}}"#,
            r#"webhook.url="https://203.0.113.7:8443/validate""#,
        ],
        expected: &[
            ("Certificate", WEBHOOK, "/spec/issuerRef", r#"{"kind": "ClusterIssuer", "name": "public"}"#),
            ("Certificate", WEBHOOK, "/spec/ipAddresses", r#"["203.0.113.7"]"#),
            // The API servers know this CA anyway.
            (D, CONTROLLER, "/spec/template/spec/volumes/1", "null"),
        ],
        absent: &[("Certificate", "depguard-ca"), ("Issuer", "depguard-ca")],
    },
    Case {
        name: "who may override",
        control_plane: KUBERNETES,
        set: &[r#"overrides={"users": ["alice", "bob"], "groups": []}"#],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--override-users=alice,bob""#),
            (D, WEBHOOK, ARGS, r#""--override-groups=""#),
        ],
        absent: &[],
    },
    Case {
        name: "the dependents that the webhook may list",
        control_plane: KUBERNETES,
        set: &[r#"dependents=[{"apiGroups": ["", "apps"], "resources": ["pods", "deployments"]}]"#],
        expected: &[
            (
                "ClusterRole",
                "depguard-webhook-dependents-of-release",
                "/rules",
                r#"[{"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list"]}]"#,
            ),
            (
                "ClusterRole",
                "depguard-webhook-dependents-of-release",
                "/metadata/labels/dependencies.opendefense.cloud~1aggregate-to-webhook",
                r#""true""#,
            ),
        ],
        absent: &[],
    },
    Case {
        name: "the dependents that the webhook may watch with the interlock",
        control_plane: KUBERNETES,
        set: &[r#"dependents=[{"apiGroups": ["apps"], "resources": ["deployments"]}]"#, "interlock.registers=4"],
        expected: &[(
            "ClusterRole",
            "depguard-webhook-dependents-of-release",
            "/rules",
            r#"[{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}]"#,
        )],
        absent: &[],
    },
    Case {
        name: "the kinds that the controller may watch to count references",
        control_plane: KUBERNETES,
        set: &[r#"counted=[{"apiGroups": ["apps"], "resources": ["deployments"]}]"#],
        expected: &[
            (
                "ClusterRole",
                "depguard-controller-references-of-release",
                "/rules",
                r#"[{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]"#,
            ),
            (
                "ClusterRole",
                "depguard-controller-references-of-release",
                "/metadata/labels/dependencies.opendefense.cloud~1aggregate-to-controller",
                r#""true""#,
            ),
        ],
        absent: &[],
    },
    Case {
        name: "the way through the exports",
        control_plane: KCP,
        set: &[r#"readThrough="export""#, r#"kcp.shardHosts=["a.example.com", "*.example.org"]"#],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--read-through=export""#),
            (D, CONTROLLER, ARGS, r#""--read-through=export""#),
            (D, WEBHOOK, ARGS, r#""--shard-hosts=a.example.com,*.example.org""#),
        ],
        absent: &[],
    },
    Case {
        name: "a key that only the controller has yet",
        control_plane: KUBERNETES,
        set: &[r#"pathKey.secretName="path""#, "pathKey.required=false"],
        expected: &[
            (D, WEBHOOK, "/spec/template/spec/volumes/1", "null"),
            (D, WEBHOOK, "/spec/template/spec/containers/0/volumeMounts/1", "null"),
            (D, CONTROLLER, ARGS, r#""--path-key-file=/etc/depguard/path-key/key""#),
        ],
        absent: &[],
    },
    Case {
        name: "paths that are made with a key",
        control_plane: KUBERNETES,
        set: &[r#"pathKey={"secretName": "path", "key": "secret", "required": true}"#],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--path-key-file=/etc/depguard/path-key/key""#),
            (D, CONTROLLER, ARGS, r#""--path-key-file=/etc/depguard/path-key/key""#),
            (
                D,
                CONTROLLER,
                VOLUMES,
                r#"{"name": "path-key", "secret": {"secretName": "path", "items": [{"key": "secret", "path": "key"}]}}"#,
            ),
        ],
        absent: &[],
    },
    Case {
        name: "certificates that API servers must show",
        control_plane: KUBERNETES,
        set: &[
            r#"webhook.clientCA={"secretName": "api-servers", "key": "ca.pem", "controllerSecretName": "controller"}"#,
        ],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--client-ca=/etc/depguard/client-ca/ca.crt""#),
            (D, CONTROLLER, ARGS, r#""--webhook-client-cert-dir=/etc/depguard/client""#),
            (D, CONTROLLER, "/spec/template/spec/volumes/0/secret/secretName", r#""controller""#),
            (
                D,
                WEBHOOK,
                VOLUMES,
                r#"{"name": "client-ca", "secret": {"secretName": "api-servers", "items": [{"key": "ca.pem", "path": "ca.crt"}]}}"#,
            ),
        ],
        absent: &[],
    },
    Case {
        name: "what is logged",
        control_plane: KUBERNETES,
        set: &[r#"log={"filter": "debug", "format": "json"}"#],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--log-format=json""#),
            (D, CONTROLLER, ARGS, r#""--log-format=json""#),
            (D, WEBHOOK, "/spec/template/spec/containers/0/env", r#"{"name": "RUST_LOG", "value": "debug"}"#),
            (D, CONTROLLER, "/spec/template/spec/containers/0/env", r#"{"name": "RUST_LOG", "value": "debug"}"#),
        ],
        absent: &[],
    },
    Case {
        name: "a webhook of one replica, at a URL, elsewhere",
        control_plane: KUBERNETES,
        set: &[
            "webhook.replicas=1",
            "webhook.port=10443",
            r#"webhook.url="https://depguard.example.com/validate""#,
            r#"webhook.service={"type": "LoadBalancer", "port": 8443, "annotations": {"example.com/a": "b"}}"#,
            "webhook.shutdownDelaySeconds=9",
            "webhook.shutdownGraceSeconds=60",
        ],
        expected: &[
            (D, WEBHOOK, ARGS, r#""--webhook-port=10443""#),
            (D, WEBHOOK, ARGS, r#""--shutdown-delay=9s""#),
            (D, WEBHOOK, ARGS, r#""--shutdown-grace=60s""#),
            (D, WEBHOOK, "/spec/template/spec/terminationGracePeriodSeconds", "65"),
            (D, CONTROLLER, ARGS, r#""--webhook-url=https://depguard.example.com/validate""#),
            ("Service", WEBHOOK, "/spec/type", r#""LoadBalancer""#),
            ("Service", WEBHOOK, "/metadata/annotations", r#"{"example.com/a": "b"}"#),
        ],
        absent: &[("PodDisruptionBudget", WEBHOOK)],
    },
    Case {
        name: "a controller of three replicas",
        control_plane: KUBERNETES,
        set: &["controller.replicas=3"],
        expected: &[
            (D, CONTROLLER, ARGS, r#""--leader-elect""#),
            (D, CONTROLLER, "/spec/strategy/type", r#""RollingUpdate""#),
        ],
        absent: &[],
    },
    Case {
        name: "where pods run, and with what",
        control_plane: KUBERNETES,
        set: &[
            r#"image={"repository": "example.com/depguard", "digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}"#,
            r#"imagePullSecrets=[{"name": "pull"}]"#,
            r#"webhook.priorityClassName="system-cluster-critical""#,
            r#"webhook.nodeSelector={"a": "b"}"#,
            r#"webhook.tolerations=[{"operator": "Exists"}]"#,
            r#"webhook.affinity={"nodeAffinity": {}}"#,
            r#"webhook.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]"#,
            r#"webhook.podAnnotations={"a": "b"}"#,
            r#"webhook.extraArgs=["--zap-devel"]"#,
            r#"webhook.extraEnv=[{"name": "A", "value": "b"}]"#,
            r#"controller.extraArgs=["--zap-devel"]"#,
            r#"controller.resources={"limits": {"memory": "1Gi"}}"#,
        ],
        expected: &[
            (
                D,
                CONTROLLER,
                "/spec/template/spec/containers/0/image",
                r#""example.com/depguard@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
            ),
            (D, WEBHOOK, "/spec/template/spec/imagePullSecrets", r#"[{"name": "pull"}]"#),
            (D, WEBHOOK, "/spec/template/spec/priorityClassName", r#""system-cluster-critical""#),
            (D, WEBHOOK, "/spec/template/spec/nodeSelector", r#"{"a": "b"}"#),
            (D, WEBHOOK, "/spec/template/spec/tolerations", r#"[{"operator": "Exists"}]"#),
            (D, WEBHOOK, "/spec/template/spec/affinity", r#"{"nodeAffinity": {}}"#),
            (D, WEBHOOK, "/spec/template/spec/topologySpreadConstraints/0/topologyKey", r#""rack""#),
            (D, WEBHOOK, "/spec/template/metadata/annotations", r#"{"a": "b"}"#),
            (D, WEBHOOK, ARGS, r#""--zap-devel""#),
            (D, WEBHOOK, "/spec/template/spec/containers/0/env", r#"{"name": "A", "value": "b"}"#),
            (D, CONTROLLER, ARGS, r#""--zap-devel""#),
            (D, CONTROLLER, "/spec/template/spec/containers/0/resources/limits/memory", r#""1Gi""#),
        ],
        absent: &[],
    },
    Case {
        name: "who may connect",
        control_plane: KUBERNETES,
        set: &[
            r#"networkPolicy.webhookFrom=[{"ipBlock": {"cidr": "10.0.0.0/8"}}]"#,
            r#"networkPolicy.metricsFrom=[{"podSelector": {}}]"#,
            r#"networkPolicy.egress=[{"ports": [{"port": 6443}]}]"#,
        ],
        expected: &[
            ("NetworkPolicy", WEBHOOK, "/spec/ingress/0/from", r#"{"ipBlock": {"cidr": "10.0.0.0/8"}}"#),
            (
                "NetworkPolicy",
                WEBHOOK,
                "/spec/ingress/0/from/1/podSelector/matchLabels/app.kubernetes.io~1component",
                r#""controller""#,
            ),
            ("NetworkPolicy", WEBHOOK, "/spec/ingress/1/from", r#"[{"podSelector": {}}]"#),
            ("NetworkPolicy", CONTROLLER, "/spec/egress", r#"[{"ports": [{"port": 6443}]}]"#),
            ("NetworkPolicy", CONTROLLER, "/spec/policyTypes", r#"["Ingress", "Egress"]"#),
        ],
        absent: &[],
    },
    Case {
        name: "what the Prometheus operator reads",
        control_plane: KUBERNETES,
        set: &[
            r#"metrics.serviceMonitor={"enabled": true, "interval": "1m", "labels": {"release": "prometheus"}}"#,
            "metrics.port=9090",
            r#"metrics.prometheusRule={"enabled": true, "labels": {"release": "prometheus"}}"#,
            "metrics.dashboard.enabled=true",
        ],
        expected: &[
            ("PrometheusRule", "depguard", "/spec/groups/0/rules/0/alert", r#""DepguardWebhookAbsent""#),
            (
                "PrometheusRule",
                "depguard",
                "/spec/groups/0/rules/1/annotations/summary",
                r#""The webhook {{ $labels.instance }} has not loaded all rules""#,
            ),
            ("PrometheusRule", "depguard", "/metadata/labels/release", r#""prometheus""#),
            ("ConfigMap", "depguard-dashboard", "/metadata/labels/grafana_dashboard", r#""1""#),
            (D, WEBHOOK, ARGS, r#""--metrics-bind-address=:9090""#),
            ("ServiceMonitor", "depguard", "/spec/endpoints/0/interval", r#""1m""#),
            ("ServiceMonitor", "depguard", "/metadata/labels/release", r#""prometheus""#),
            ("Service", "depguard-webhook-metrics", "/spec/ports/0/port", "9090"),
            (
                "Service",
                "depguard-webhook-metrics",
                "/metadata/labels/depguard.opendefense.cloud~1scrape",
                r#""metrics""#,
            ),
            (
                "Service",
                "depguard-controller-metrics",
                "/metadata/labels/depguard.opendefense.cloud~1scrape",
                r#""metrics""#,
            ),
        ],
        absent: &[],
    },
    Case {
        name: "as little as there can be",
        control_plane: KUBERNETES,
        set: &[
            "metrics.enabled=false",
            "networkPolicy.enabled=false",
            "uninstall.enabled=false",
            "crd.install=false",
            "webhook.podDisruptionBudget.enabled=false",
        ],
        expected: &[(D, CONTROLLER, ARGS, r#""--metrics-bind-address=0""#)],
        absent: &[
            ("Service", "depguard-webhook-metrics"),
            ("NetworkPolicy", WEBHOOK),
            ("Job", "depguard-uninstall"),
            ("CustomResourceDefinition", "dependencyrules.dependencies.opendefense.cloud"),
            ("PodDisruptionBudget", WEBHOOK),
        ],
    },
];

/// Settings that the chart rejects: the values, the setting, and a part of helm's message.
pub(crate) const REJECTED: &[(&str, &str, &str)] = &[
    (KUBERNETES, r#"controlPlane="openshift""#, "/controlPlane"),
    (KUBERNETES, r#"image.repository="""#, "/image/repository"),
    (KUBERNETES, r#"image.digest="md5:0""#, "/image/digest"),
    (KUBERNETES, r#"tls.secretName="""#, "/tls/secretName"),
    (KUBERNETES, r#"tls.certManager.enabled=true"#, "/tls/secretName"),
    (KUBERNETES, r#"readThrough="export""#, "/readThrough"),
    (KUBERNETES, r#"dependents=[{"apiGroups": [""]}]"#, "/dependents/0"),
    (KUBERNETES, r#"counted=[{"resources": ["pods"]}]"#, "/counted/0"),
    (KUBERNETES, "webhook.replicas=0", "/webhook/replicas"),
    (KUBERNETES, r#"webhook.replicas="2""#, "/webhook/replicas"),
    (KUBERNETES, "webhook.shutdownDelaySeconds=20", "at most half"),
    (KUBERNETES, "webhook.port=443", "/webhook/port"),
    (KUBERNETES, r#"webhook.url="http://depguard.example.com/validate""#, "/webhook/url"),
    (KUBERNETES, r#"webhook.url="https://depguard.example.com/""#, "/webhook/url"),
    (KUBERNETES, r#"webhook.service.type="ExternalName""#, "/webhook/service/type"),
    (KUBERNETES, r#"webhook.extraArgs=["zap"]"#, "/webhook/extraArgs/0"),
    (KUBERNETES, "webhook.podDisruptionBudget.maxUnavailable=0", "/webhook/podDisruptionBudget/maxUnavailable"),
    (KUBERNETES, r#"overrides.groups=["a,b"]"#, "/overrides/groups/0"),
    (KUBERNETES, r#"overrides.groups="system:masters""#, "/overrides/groups"),
    (KUBERNETES, r#"log.format="logfmt""#, "/log/format"),
    (KUBERNETES, "uninstall.timeoutSeconds=5", "/uninstall/timeoutSeconds"),
    (
        KUBERNETES,
        r#"metrics={"enabled": false, "serviceMonitor": {"enabled": true}}"#,
        "/metrics/serviceMonitor/enabled",
    ),
    // A mistyped name must not leave a default in force.
    (KUBERNETES, "webhok.replicas=3", "webhok"),
    (KUBERNETES, "controller.replica=3", "replica"),
    (KCP, r#"webhook.url="""#, "/webhook/url"),
    (KCP, r#"kcp.kubeconfig.webhook.secretName="""#, "/kcp/kubeconfig/webhook/secretName"),
    (KCP, r#"kcp.kubeconfig.controller.secretName="""#, "/kcp/kubeconfig/controller/secretName"),
    (KCP, r#"kcp.baseHost="https://kcp.example.com/clusters/root""#, "/kcp/baseHost"),
    (KCP, r#"pathKey.key="a/b""#, "/pathKey/key"),
];
