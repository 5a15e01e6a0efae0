//! Group of a GlobalOwner: the objects that its entry selects, and the name of its GroupOwner.

use depguard_core::owners::Entry;
use depguard_kcp::Metadata;
use sha2::{Digest, Sha256};

/// Selection of objects by an entry.
pub(crate) trait Selection {
    /// Returns true if the object belongs to the group.
    fn selects(&self, object: &Metadata) -> bool;

    /// Returns true if the entry names the object, whatever the object's labels are.
    fn names(&self, object: &Metadata) -> bool;
}

impl Selection for Entry {
    fn selects(&self, object: &Metadata) -> bool {
        fits(self, object) && self.selector.matches(|key| object.labels.get(key).map(String::as_str))
    }

    fn names(&self, object: &Metadata) -> bool {
        !self.names.is_empty() && fits(self, object)
    }
}

fn fits(entry: &Entry, object: &Metadata) -> bool {
    entry.namespace.as_ref().is_none_or(|selected| object.namespace.as_deref() == Some(selected.as_str()))
        && (entry.names.is_empty() || entry.names.contains(&object.name))
}

/// Returns the name of a group's GroupOwner and of its role. The name depends neither on the order of the entries nor
/// on their selections: both may change without a new owner for every object.
pub(crate) fn group_name(owner: &str, owner_uid: &str, entry: &Entry) -> String {
    let kind = entry.resource.group_resource();
    let hash = Sha256::digest(format!("{owner_uid}\n{kind}\n{}", entry.number));
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let resource = entry.resource.resource.as_str();
    let tail = format!("-{resource}-{}-{hash}", entry.number);
    // A name has at most 253 characters; a cut must not leave a dot or a dash before the tail.
    let space = 253_usize.saturating_sub(tail.len());
    let head: String = owner.chars().take(space).collect();
    format!("{}{tail}", head.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use depguard_core::owners::entries;
    use serde_json::{Value, json};

    use super::*;

    fn object(namespace: Option<&str>, name: &str, labels: &[(&str, &str)]) -> Metadata {
        Metadata {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
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
}
