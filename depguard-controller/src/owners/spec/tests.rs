use std::collections::BTreeMap;

use super::*;

fn object(namespace: Option<&str>, name: &str, labels: &[(&str, &str)]) -> Metadata {
    Metadata {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
        ..Metadata::default()
    }
}

#[test]
fn an_entry_selects_by_its_own_labels_else_by_those_of_all_and_by_names_besides() {
    let adopt = json!({"matchExpressions": [{"key": "adopt", "operator": "Exists"}]});
    let entries = entries(&json!({"selector": adopt, "childResources": [
        {"apiVersion": "v1", "resource": "secrets", "namespace": "default", "names": ["test"]},
        {"apiVersion": "v1", "resource": "configmaps"},
        {"apiVersion": "apps/v1", "resource": "deployments", "selector": {"matchLabels": {"tier": "a"}}},
    ]}))
    .unwrap();
    for (entry, namespace, name, labels, selects) in [
        (0, Some("default"), "test", &[("adopt", "")][..], true),
        (0, Some("default"), "other", &[("adopt", "")], false),
        (0, Some("elsewhere"), "test", &[("adopt", "")], false),
        (0, Some("default"), "test", &[], false),
        (1, Some("anywhere"), "any", &[("adopt", "no")], true),
        (1, None, "any", &[("tier", "a")], false),
        (2, Some("a"), "b", &[("tier", "a")], true),
        (2, Some("a"), "b", &[("adopt", "")], false),
    ] {
        let object = object(namespace, name, labels);
        assert_eq!(entries[entry].selects(&object), selects, "{entry} {object:?}");
    }
    // The object is named, and not selected: users are told of that.
    assert!(entries[0].names(&object(Some("default"), "test", &[])));
    assert!(!entries[1].names(&object(Some("default"), "test", &[])));
}

#[test]
fn without_any_selector_a_namespace_selects_what_is_not_to_be_skipped() {
    let children = json!([{"apiVersion": "v1", "resource": "secrets", "namespace": "default"}]);
    let entries = entries(&json!({"childResources": children})).unwrap();
    assert!(entries[0].selects(&object(Some("default"), "a", &[])));
    assert!(!entries[0].selects(&object(Some("default"), "a", &[("skipAdoption", "")])));
}

#[test]
fn what_is_wrong_is_told_by_its_field_and_adopts_nothing() {
    let child = |fields: &Value| {
        let mut child = json!({"apiVersion": "v1", "resource": "secrets"});
        child.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        entries(&json!({"childResources": [child]})).unwrap_err().to_string()
    };
    for (fields, said) in [
        (json!({}), "spec.childResources[0]: has no selector, names or namespace"),
        (json!({"selector": {}, "names": ["a"]}), "spec.childResources[0]: has both a selector and names"),
        (json!({"selector": {}, "namespace": "a"}), "spec.childResources[0]: has both a selector and names"),
        (json!({"apiVersion": "a/b/c", "selector": {}}), "spec.childResources[0].apiVersion: "),
        (json!({"resource": "Secret", "selector": {}}), "spec.childResources[0].resource: "),
        (
            json!({"apiVersion": "globalowner.metacontroller.io/v1alpha1", "selector": {}}),
            "spec.childResources[0]: Global",
        ),
        (json!({"selector": {"matchLabels": {"": "a"}}}), "spec.childResources[0].selector: "),
        (json!({"names": "a"}), "spec.childResources[0]: "),
    ] {
        let error = child(&fields);
        assert!(error.starts_with(said), "{error}");
    }
    let many: Vec<_> = (0..257).map(|_| json!({"apiVersion": "v1", "resource": "secrets", "selector": {}})).collect();
    assert!(entries(&json!({"childResources": many})).unwrap_err().to_string().contains("256"));
}

#[test]
fn a_group_keeps_its_name_whatever_its_place_and_its_selector() {
    let names = |children: &Value| -> Vec<String> {
        let entries = entries(&json!({"selector": {}, "childResources": children})).unwrap();
        entries.iter().map(|entry| group_name("o", "uid", entry)).collect()
    };
    let (maps, secrets) =
        (json!({"apiVersion": "v1", "resource": "configmaps"}), json!({"apiVersion": "v1", "resource": "secrets"}));
    let in_one = json!({"apiVersion": "v1", "resource": "configmaps", "namespace": "a"});
    let one = names(&json!([maps, secrets]));
    assert_eq!(names(&json!([secrets, in_one])), [one[1].clone(), one[0].clone()]);
    let two = names(&json!([maps, in_one]));
    assert_eq!(two[0], one[0]);
    assert_ne!(two[1], one[0]);
    assert!(one[0].starts_with("o-configmaps-0-"), "{}", one[0]);
    let entries = entries(&json!({"selector": {}, "childResources": [maps]})).unwrap();
    let long = group_name(&"a.".repeat(126), "uid", &entries[0]);
    assert!(long.len() <= 253 && !long.contains(".-"), "{long}");
    assert_ne!(group_name("o", "another", &entries[0]), one[0]);
}

#[test]
fn what_is_not_known_of_a_deletion_deletes_nothing() {
    let policy = |spec: &Value, annotations: &Value| {
        deletion_policy(&json!({"metadata": {"annotations": annotations}, "spec": spec}))
    };
    assert_eq!(policy(&json!({}), &json!({})), DeletionPolicy::Delete);
    assert_eq!(policy(&json!({"deletionPolicy": "Delete"}), &json!({})), DeletionPolicy::Delete);
    assert_eq!(policy(&json!({"deletionPolicy": "Orphan"}), &json!({})), DeletionPolicy::Orphan);
    assert_eq!(policy(&json!({"deletionPolicy": "Other"}), &json!({})), DeletionPolicy::Orphan);
    assert_eq!(policy(&json!({}), &json!({CASCADE_ANNOTATION: "Orphan"})), DeletionPolicy::Orphan);
}
