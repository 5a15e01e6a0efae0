//! The rule for Multus in docs/rules.md: it reads both forms of the annotation, and makes no name of the other form's text.

use depguard_core::lookup::{ReferenceReader, ReferenceTarget};
use depguard_core::{ControlPlane, Rule};
use serde_json::{Value, json};

/// Returns what a Pod of namespace `shop` with that annotation refers to: `namespace/name`, or `?` where nobody can tell.
fn networks(reader: &ReferenceReader, annotation: &str) -> Vec<String> {
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": annotation});
    let pod = json!({"metadata": {"name": "p", "namespace": "shop", "annotations": annotations}});
    let mut found = Vec::new();
    let means = |means: ReferenceTarget<'_>| match means {
        ReferenceTarget::Named { name, namespace, .. } => format!("{}/{name}", namespace.unwrap_or_default()),
        ReferenceTarget::Selected { .. } => panic!("no selector"),
        ReferenceTarget::Unclear { namespace, .. } => format!("?{}", namespace.unwrap_or_default()),
    };
    reader.read(&pod, |reference| found.push(means(reference.means))).unwrap();
    found
}

#[test]
fn the_rule_of_the_documents_reads_both_forms_of_the_networks_of_a_pod() {
    let page = include_str!("../../../docs/rules.md");
    let mut blocks = page.split("```yaml\n").filter_map(|rest| rest.split_once("```")).map(|(block, _)| block);
    let text = blocks.find(|block| block.contains("name: multus-pods")).expect("the rule");
    let rule: Value = serde_saphyr::from_str(text).unwrap();
    let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
    let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
    for (annotation, expected) in [
        ("a", &["shop/a"][..]),
        ("a,b", &["shop/a", "shop/b"]),
        (" a ,\tshared/b@eth1,\n  lan.v1@net1 ", &["shop/a", "shared/b", "shop/lan.v1"]),
        ("shared / b @ eth1, /c, a@", &["shared/b", "shop/c", "shop/a"]),
        ("a, a", &["shop/a", "shop/a"]),
        ("", &[]),
        (" , ", &[]),
        // Multus takes none of these, and starts no such Pod.
        ("A, a b, a/b/c, shared/, @eth1", &[]),
        ("\"a\", {b}", &[]),
        (r#"[{"name": "a"}]"#, &["shop/a"]),
        (
            r#"[{"name":"a","namespace":"shared","interface":"eth1"},{"namespace":"","name":"b"}]"#,
            &["shared/a", "shop/b"],
        ),
        ("\n [ { \"name\" : \"a\" } ,\n {\"name\":\"\\u0062\"} ] \n", &["shop/a", "shop/b"]),
        // Commas and names of the one form inside of the other.
        (
            r#"[{"name":"a","ips":["10.0.0.1/24","b"],"mac":"c2:b0","cni-args":{"vlans":[1,2,3],"text":"x,y, z"}}]"#,
            &["shop/a"],
        ),
        (r#"[{"namespace":"shared","cni-args":{"name":"b"}}, 7, null]"#, &[]),
        ("[]", &[]),
        ("{}", &[]),
        // No form of Multus; each string of a list is a name, as outside of JSON.
        (r#"["c"]"#, &["shop/c"]),
        // The first dependency can mean any namespace, and so can the second.
        ("[", &["?", "?"]),
        (r#"[{"name":"a"}"#, &["?", "?"]),
        (r#"[{"name":"a"}], b"#, &["?", "?"]),
        ("{a, b}", &["?", "?"]),
    ] {
        assert_eq!(networks(&reader, annotation), expected, "{annotation:?}");
    }
}
