use super::*;

#[test]
fn what_is_wrong_is_told_by_its_field_and_adopts_nothing() {
    let child = |fields: &Value| {
        let mut child = json!({"apiVersion": "v1", "resource": "secrets"});
        child.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        entries(&json!({"childResources": [child]})).unwrap_err()
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
        assert!(error.to_string().starts_with(said) && said.starts_with(error.field()), "{error}");
    }
    let many: Vec<_> = (0..257).map(|_| json!({"apiVersion": "v1", "resource": "secrets", "selector": {}})).collect();
    assert!(entries(&json!({"childResources": many})).unwrap_err().to_string().contains("256"));
}

#[test]
fn what_is_not_known_of_a_deletion_deletes_nothing() {
    let policy = |spec: &Value, annotations: &Value| {
        DeletionPolicy::from_owner(&json!({"metadata": {"annotations": annotations}, "spec": spec}))
    };
    assert_eq!(policy(&json!({}), &json!({})), DeletionPolicy::Delete);
    assert_eq!(policy(&json!({"deletionPolicy": "Delete"}), &json!({})), DeletionPolicy::Delete);
    assert_eq!(policy(&json!({"deletionPolicy": "Orphan"}), &json!({})), DeletionPolicy::Orphan);
    assert_eq!(policy(&json!({"deletionPolicy": "Other"}), &json!({})), DeletionPolicy::Orphan);
    assert_eq!(policy(&json!({}), &json!({CASCADE_ANNOTATION: "Orphan"})), DeletionPolicy::Orphan);
}
