//! Manifests of kinds that the packs about Kubernetes' own kinds know, and of kinds with defaults: always the same ones.

use depguard_e2e::Resource;
use serde_json::{Map, Value, json};

/// Objects of each kind.
const EACH: usize = 26;
/// Names of targets, of which the first half exists.
const NAMES: usize = 24;

/// Source of choices that are the same in each run.
pub(super) struct Choices(u64);

impl Choices {
    pub(super) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns the name of a target, which may be missing.
    fn name(&mut self) -> String {
        format!("t{}", self.below(NAMES))
    }

    /// Returns the name of a target that exists.
    fn there(&mut self) -> String {
        format!("t{}", self.below(NAMES / 2))
    }

    /// Returns some of these values, in their order.
    fn some(&mut self, all: Vec<Value>) -> Vec<Value> {
        all.into_iter().filter(|_| self.one_in(4)).collect()
    }
}

/// Returns the targets in a namespace, and those in none.
pub(super) fn targets(namespace: &str, issuer: &Resource) -> Vec<Value> {
    let mut all = Vec::new();
    let within = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    for name in (0..NAMES / 2).map(|number| format!("t{number}")) {
        all.extend(["ConfigMap", "Secret"].map(|kind| within("v1", kind, &name)));
        let mut account = within("v1", "ServiceAccount", &name);
        account["imagePullSecrets"] = json!([{"name": "pull"}]);
        all.push(account);
        let mut service = within("v1", "Service", &name);
        service["spec"] = json!({"ports": [{"port": 80}]});
        all.extend([service, within(&issuer.api_version(), &issuer.kind, &name)]);
        all.push(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [],
            "metadata": {"name": name, "namespace": namespace}}));
    }
    all
}

/// Gives the fields of a kind defaults, in the shape of a product's definition.
pub(super) fn put_defaults(definition: &mut Value, issuer: &Resource) {
    let reference = |default: &str| {
        json!({"type": "object", "properties": {
            "name": {"type": "string"}, "kind": {"type": "string", "default": default},
        }})
    };
    let spec = json!({"type": "object", "properties": {
        "issuerRef": reference(&issuer.kind),
        "secretRef": {"type": "object", "default": {}, "properties": {"name": {"type": "string", "default": "t1"}}},
        "sources": {"type": "array", "items": reference("ConfigMap")},
        "byName": {"type": "object", "additionalProperties": reference("Secret")},
        "class": {"type": "string", "nullable": true, "default": "t2"},
    }});
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    }
}

/// Returns the rule about that kind.
pub(super) fn rule_of(kind: &Resource, issuer: &Resource) -> Value {
    let core = |kind: &str, resource: &str, path: &str| {
        let mut target =
            json!({"group": "", "version": "v1", "kind": kind, "resource": resource, "fieldRef": {"path": path}});
        if let Some(at) = path.strip_suffix(".name").filter(|at| !at.ends_with("secretRef")) {
            target["fieldRef"]["kindPath"] = format!("{at}.kind").into();
        }
        target
    };
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "own"},
        "spec": {
            "dependent": {"group": kind.group, "version": kind.versions[0], "kind": kind.kind, "resource": kind.plural},
            "dependencies": [
                {"group": issuer.group, "version": issuer.versions[0], "kind": issuer.kind, "resource": issuer.plural,
                 "fieldRef": {"path": ".spec.issuerRef.name", "kindPath": ".spec.issuerRef.kind"}},
                core("Secret", "secrets", ".spec.secretRef.name"),
                core("ConfigMap", "configmaps", ".spec.sources[*].name"),
                core("Secret", "secrets", ".spec.sources[*].name"),
                core("Secret", "secrets", ".spec.byName[*].name"),
                core("ConfigMap", "configmaps", ".spec.class"),
            ],
        },
    })
}

/// Returns the dependents. Some leave out their namespace, and some of a kind without namespaces name one.
pub(super) fn dependents(id: &str, namespace: &str, own: &Resource, choices: &mut Choices) -> Vec<Value> {
    let mut all = Vec::new();
    for number in 0..EACH {
        let name = format!("d{number}");
        let global = format!("{id}-{name}");
        let mut add = |api_version: &str, kind: &str, fields: Value, choices: &mut Choices| {
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            if !choices.one_in(3) {
                object["metadata"]["namespace"] = namespace.into();
            }
            merge(&mut object, fields);
            all.push(object);
        };
        add("v1", "Pod", json!({"spec": pod(choices, true)}), choices);
        for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
            let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template(choices)});
            if kind != "DaemonSet" {
                spec["replicas"] = 0.into();
            }
            if kind == "StatefulSet" && choices.one_in(2) {
                spec["serviceName"] = "s".into();
                spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "claim"}, "spec": claim(choices)}]);
            }
            add("apps/v1", kind, json!({"spec": spec}), choices);
        }
        let mut job = template(choices);
        job["spec"]["restartPolicy"] = "Never".into();
        let generated = json!({"metadata": {"name": null, "generateName": format!("g{number}-")}});
        add("batch/v1", "Job", json!({"spec": {"suspend": true, "template": job}}), choices);
        let job = json!({"spec": {"suspend": true, "template": job}});
        add("batch/v1", "CronJob", json!({"spec": {"schedule": "0 0 30 2 *", "jobTemplate": job}}), choices);
        if choices.one_in(2) {
            let mut generated = generated;
            merge(&mut generated, job);
            add("batch/v1", "Job", generated, choices);
        }
        add("v1", "PersistentVolumeClaim", json!({"spec": claim(choices)}), choices);
        let pulls: Vec<_> = (0..choices.below(3)).map(|_| json!({"name": choices.name()})).collect();
        add("v1", "ServiceAccount", json!({"imagePullSecrets": pulls}), choices);
        let service = json!({"name": choices.name(), "port": {"number": 80}});
        let path = json!({"path": "/", "pathType": "Prefix", "backend": {"service": service}});
        let mut ingress = json!({"rules": [{"host": format!("{name}.{id}.test"), "http": {"paths": [path]}}]});
        if choices.one_in(2) {
            ingress["tls"] = json!([{"secretName": choices.name()}]);
            ingress["ingressClassName"] = choices.name().into();
        }
        add("networking.k8s.io/v1", "Ingress", json!({"spec": ingress}), choices);
        add("rbac.authorization.k8s.io/v1", "RoleBinding", json!({"roleRef": role(choices, true)}), choices);
        add(&own.api_version(), &own.kind, json!({"spec": with_defaults(choices)}), choices);
        let parameters = json!({
            "csi.storage.k8s.io/node-stage-secret-name": choices.name(),
            "csi.storage.k8s.io/node-stage-secret-namespace": namespace,
        });
        let class = json!({"provisioner": "a.test/b", "parameters": parameters, "metadata": {"name": global}});
        add("storage.k8s.io/v1", "StorageClass", class, choices);
        let binding = json!({"roleRef": role(choices, false), "metadata": {"name": global}});
        add("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", binding, choices);
        let volume = json!({"spec": volume(choices, namespace), "metadata": {"name": global}});
        add("v1", "PersistentVolume", volume, choices);
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let service = json!({"service": {"name": choices.name(), "namespace": namespace}});
            let hook = json!({"name": format!("h.{id}.test"), "clientConfig": service, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"});
            let hooks = json!({"webhooks": [hook], "metadata": {"name": global}});
            add("admissionregistration.k8s.io/v1", kind, hooks, choices);
        }
        if number == 0 {
            let definition = json!({"metadata": {"name": format!("odds.{}", own.group)}, "spec": {
                "group": own.group, "scope": "Namespaced", "names": {"kind": "Odd", "plural": "odds"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
                "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": choices.name(), "namespace": namespace}}}},
            }});
            add("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition, choices);
        }
        let level = if choices.one_in(2) { "catch-all".to_owned() } else { choices.name() };
        let schema = json!({"spec": {"priorityLevelConfiguration": {"name": level}}, "metadata": {"name": global}});
        add("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", schema, choices);
        let requests = json!({"devices": {"requests": [
            {"name": "one", "exactly": {"deviceClassName": choices.name()}},
            {"name": "two", "firstAvailable": [{"name": "a", "deviceClassName": choices.name()}]},
        ]}});
        add("resource.k8s.io/v1", "ResourceClaim", json!({"spec": requests}), choices);
        add("resource.k8s.io/v1", "ResourceClaimTemplate", json!({"spec": {"spec": requests}}), choices);
    }
    all
}

fn template(choices: &mut Choices) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": pod(choices, false)})
}

/// Returns the spec of a Pod. Of a Pod itself, an API server looks for the account.
fn pod(choices: &mut Choices, is_pod: bool) -> Value {
    let named = |choices: &mut Choices| json!({"name": choices.name()});
    let mut volumes = vec![
        json!({"configMap": named(choices)}),
        json!({"secret": {"secretName": choices.name()}}),
        json!({"projected": {"sources": [{"configMap": named(choices)}, {"secret": named(choices)}]}}),
        json!({"csi": {"driver": "d.test", "nodePublishSecretRef": named(choices)}}),
        json!({"iscsi": {"targetPortal": "p:1", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "secretRef": named(choices)}}),
        json!({"azureFile": {"shareName": "s", "secretName": choices.name()}}),
        json!({"flexVolume": {"driver": "a/b", "secretRef": named(choices)}}),
        json!({"cephfs": {"monitors": ["m"], "secretRef": named(choices)}}),
        json!({"cinder": {"volumeID": "v", "secretRef": named(choices)}}),
        json!({"rbd": {"monitors": ["m"], "image": "i", "secretRef": named(choices)}}),
        json!({"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": named(choices)}}),
        json!({"storageos": {"volumeName": "v", "secretRef": named(choices)}}),
        json!({"persistentVolumeClaim": {"claimName": format!("d{}", choices.below(EACH + 4))}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": claim(choices)}}}),
    ];
    volumes = choices.some(volumes);
    for (number, volume) in volumes.iter_mut().enumerate() {
        volume["name"] = format!("v{number}").into();
    }
    let sources = vec![json!({"configMapRef": named(choices)}), json!({"secretRef": named(choices)})];
    let variable = |source: &str, choices: &mut Choices| json!({"name": source, "valueFrom": {source: {"key": "k", "name": choices.name()}}});
    let variables = vec![variable("configMapKeyRef", choices), variable("secretKeyRef", choices)];
    let container =
        json!({"name": "c", "image": "i", "envFrom": choices.some(sources), "env": choices.some(variables)});
    let mut first = container.clone();
    first["name"] = "first".into();
    let mut pod = json!({"volumes": volumes, "containers": [container]});
    if choices.one_in(3) {
        pod["initContainers"] = json!([first]);
    }
    if choices.one_in(3) {
        pod["imagePullSecrets"] = json!([named(choices)]);
    }
    let account = if is_pod { choices.there() } else { choices.name() };
    match choices.below(4) {
        0 => pod["serviceAccount"] = account.into(),
        1 => pod["serviceAccountName"] = account.into(),
        _ => {}
    }
    if !is_pod && choices.one_in(4) {
        pod["priorityClassName"] = "system-node-critical".into();
        pod["runtimeClassName"] = choices.name().into();
    }
    pod
}

fn claim(choices: &mut Choices) -> Value {
    let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let kind = if choices.one_in(4) { "VolumeSnapshot" } else { "PersistentVolumeClaim" };
    let mut source = json!({"kind": kind, "name": format!("d{}", choices.below(EACH + 4))});
    if kind == "VolumeSnapshot" {
        source["apiGroup"] = "snapshot.storage.k8s.io".into();
    }
    match choices.below(4) {
        0 => claim["dataSource"] = source,
        1 => claim["dataSourceRef"] = source,
        _ => {}
    }
    if choices.one_in(2) {
        claim["storageClassName"] = if choices.one_in(4) { json!("") } else { choices.name().into() };
    }
    claim
}

fn volume(choices: &mut Choices, namespace: &str) -> Value {
    let mut volume =
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "none"});
    let secret = json!({"name": choices.name(), "namespace": namespace});
    match choices.below(3) {
        0 => volume["csi"] = json!({"driver": "d.test", "volumeHandle": "h", "nodeStageSecretRef": secret}),
        1 => volume["rbd"] = json!({"monitors": ["m"], "image": "i", "secretRef": secret}),
        _ => {
            volume["azureFile"] = json!({"shareName": "s", "secretName": choices.name(), "secretNamespace": namespace});
        }
    }
    volume
}

fn role(choices: &mut Choices, in_namespace: bool) -> Value {
    let mut role = match in_namespace && choices.one_in(2) {
        true => json!({"kind": "Role", "name": choices.name()}),
        false if choices.one_in(2) => json!({"kind": "ClusterRole", "name": "view"}),
        false => json!({"kind": "ClusterRole", "name": choices.name()}),
    };
    if choices.one_in(2) {
        role["apiGroup"] = "rbac.authorization.k8s.io".into();
    }
    role
}

/// Returns the spec of a kind with defaults, some of which it leaves out.
fn with_defaults(choices: &mut Choices) -> Value {
    let mut reference = |kinds: [&str; 2]| match choices.below(4) {
        0 => json!({"name": choices.name(), "kind": kinds[choices.below(2)]}),
        1 => json!({"name": choices.name(), "kind": null}),
        _ => json!({"name": choices.name()}),
    };
    let mut spec = json!({"issuerRef": reference(["Issuer", "ClusterIssuer"])});
    let sources: Vec<_> = (0..3).map(|_| reference(["ConfigMap", "Secret"])).collect();
    let by_name: Map<_, _> =
        ["x", "y"].map(|key| (key.to_owned(), reference(["ConfigMap", "Secret"]))).into_iter().collect();
    spec["sources"] = choices.some(sources).into();
    if choices.one_in(2) {
        spec["byName"] = by_name.into();
    }
    match choices.below(4) {
        0 => spec["secretRef"] = json!({"name": choices.name()}),
        1 => spec["secretRef"] = json!(null),
        _ => {}
    }
    match choices.below(4) {
        0 => spec["class"] = choices.name().into(),
        1 => spec["class"] = json!(null),
        _ => {}
    }
    spec
}

/// Puts fields into an object; null takes one out.
fn merge(target: &mut Value, fields: Value) {
    match (target, fields) {
        (Value::Object(target), Value::Object(fields)) => {
            for (name, value) in fields {
                if name == "name" && value.is_null() {
                    target.remove(&name);
                } else {
                    merge(target.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (target, fields) => *target = fields,
    }
}
