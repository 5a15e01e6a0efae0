//! Reviews, honest and forged.

use serde_json::{Value, json};

/// Reviews of the objects in one workspace.
pub(crate) struct Reviews {
    pub(crate) cluster: String,
    pub(crate) namespace: String,
}

/// Length of the large part of an object, so that a review with both of its states is just small enough.
const LARGE: usize = 1_400_000;

impl Reviews {
    /// Returns the honest reviews: each with its path, and a part of the right answer.
    pub(crate) fn all(&self) -> [(&'static str, String, &'static str); 4] {
        [
            ("/validate", self.deletion("free"), r#""allowed":true"#),
            ("/validate", self.deletion("used"), "VirtualMachine/m1"),
            ("/reference", self.creation("free"), r#""allowed":true"#),
            ("/reference", self.creation("ghost"), "not found"),
        ]
    }

    pub(crate) fn deletion(&self, vpc: &str) -> String {
        let old = json!({"metadata": self.metadata_of(vpc)});
        self.review("DELETE", ["network.example.com", "v1alpha1", "VPC", "vpcs"], vpc, &Value::Null, &old)
    }

    pub(crate) fn creation(&self, vpc: &str) -> String {
        let new = json!({"metadata": self.metadata_of("new"), "spec": {"vpcRef": {"name": vpc}}});
        self.machine("CREATE", &new, &Value::Null)
    }

    /// Returns an update with more references than are compared one by one, in both states.
    pub(crate) fn update(&self) -> String {
        let mut refs: Vec<_> = (0..10_050).map(|n| json!({"name": format!("r{n}")})).collect();
        let mut length = json!(refs).to_string().len();
        while length < LARGE {
            refs.push(json!({"a": 0}));
            length += 8;
        }
        let state = json!({"metadata": self.metadata_of("m1"), "spec": {"vpcRef": {"name": "used"}, "refs": refs}});
        let mut new = state.clone();
        new["spec"]["vpcRef"]["name"] = json!("free");
        self.machine("UPDATE", &new, &state)
    }

    /// Returns reviews whose metadata and user consist of many small parts.
    pub(crate) fn metadata(&self) -> Vec<String> {
        let many = |part: fn(usize) -> String, length: usize| {
            let mut parts = String::new();
            for n in 0.. {
                if parts.len() > length {
                    break;
                }
                parts.push_str(&part(n));
            }
            parts.trim_end_matches(',').to_owned()
        };
        let creation = self.creation("free");
        let with = |old: &str, new: String| creation.replacen(old, &new, 1);
        let in_metadata = |field: String| with(r#""name":"new""#, format!(r#""name":"new",{field}"#));
        vec![
            with(r#""groups":[]"#, format!(r#""groups":[{}]"#, many(|_| r#""","#.to_owned(), 2 * LARGE))),
            with(r#""groups":[]"#, format!(r#""extra":{{{}}}"#, many(|n| format!(r#""{n:x}":[],"#), 2 * LARGE))),
            in_metadata(format!(r#""ownerReferences":[{}]"#, many(|_| "{},".to_owned(), 2 * LARGE))),
            in_metadata(format!(r#""labels":{{{}}}"#, many(|n| format!(r#""{n:x}":"","#), 2 * LARGE))),
            in_metadata(format!(r#""finalizers":[{}]"#, many(|_| r#""","#.to_owned(), 2 * LARGE))),
            in_metadata(format!(r#""managedFields":[{}]"#, many(|_| "{},".to_owned(), 2 * LARGE))),
        ]
    }

    /// Returns a change of a lock with many small parts.
    pub(crate) fn lock(&self) -> String {
        let parts = vec![json!({"a": 0}); LARGE / 8];
        let spec =
            json!({"targets": [{"group": "network.example.com", "resource": "vpcs", "name": "free"}], "x": parts});
        let new = json!({"apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ObjectLock",
            "metadata": self.metadata_of("l"), "spec": spec});
        let mut old = new.clone();
        old["spec"]["reason"] = json!("before");
        let kind = ["dependencies.opendefense.cloud", "v1alpha1", "ObjectLock", "objectlocks"];
        self.review("UPDATE", kind, "l", &new, &old)
    }

    fn metadata_of(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "annotations": {"kcp.io/cluster": self.cluster}})
    }

    fn machine(&self, operation: &str, new: &Value, old: &Value) -> String {
        let kind = ["compute.example.com", "v1alpha1", "VirtualMachine", "virtualmachines"];
        self.review(operation, kind, "new", new, old)
    }

    fn review(&self, operation: &str, kind: [&str; 4], name: &str, new: &Value, old: &Value) -> String {
        let [group, version, kind, resource] = kind;
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "name": name, "namespace": self.namespace,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "userInfo": {"username": "alice", "groups": []}, "object": new, "oldObject": old,
        }})
        .to_string()
    }
}

/// Returns a probe of the largest size that names so many different rules, again and again.
pub(crate) fn probe(names: usize) -> String {
    let entry = |n: usize| match names {
        1 => json!({"name": "vm-vpc"}),
        _ => json!({"logicalCluster": "x", "name": format!("{:x}", n % names)}),
    };
    // As many as fit into a review.
    let entries: Vec<_> = (0..if names == 1 { 150_000 } else { 60_000 }).map(entry).collect();
    let (group, version) = ("dependencies.opendefense.cloud", "v1alpha1");
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CONNECT", "subResource": "enforcement",
        "kind": {"group": group, "version": version, "kind": "DependencyRule"},
        "resource": {"group": group, "version": version, "resource": "dependencyrules"},
        "userInfo": {}, "object": {"rules": entries},
    }})
    .to_string()
}

/// Returns the spec of a rule with 30 patterns that no other rule has.
pub(crate) fn patterns(number: usize) -> Value {
    let dependencies: Vec<_> = (0..30)
        .map(|n| {
            let pattern = format!(r"^{number}-{n}/\w{{100}}[^/]{{20}}");
            json!({
                "apiExportRef": {"path": "root:floods:providers:network", "name": "network.example.com"},
                "group": "network.example.com", "version": "v1alpha1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpc", "pattern": pattern, "namespacePattern": pattern},
            })
        })
        .collect();
    json!({
        "dependent": {
            "apiExportName": "evil.example.com", "group": "evil.example.com", "version": "v1", "kind": "Evil",
            "resource": "evils",
        },
        "dependencies": dependencies,
    })
}
