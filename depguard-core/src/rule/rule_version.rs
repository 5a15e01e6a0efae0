//! Version of a rule.

use serde_json::Value;

/// Version of a rule: the object that holds the rule, and the generation of its `spec`. A rule that was deleted and made
/// again has another UID, and begins at generation 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a UID and a generation name one spec")]
pub struct RuleVersion {
    /// The object's UID; `None` if it is unknown.
    pub uid: Option<String>,
    /// The generation; 0 if the object has none.
    pub generation: i64,
}

impl RuleVersion {
    /// Reads the version of a DependencyRule as an API server returns it.
    pub fn of(object: &Value) -> Self {
        let metadata = |field: &str| object.get("metadata")?.get(field);
        let uid = metadata("uid").and_then(Value::as_str).map(str::to_owned);
        Self { uid, generation: metadata("generation").and_then(Value::as_i64).unwrap_or_default() }
    }

    /// Returns true if both generations are the same, and no UID tells the objects apart.
    pub fn may_be(&self, other: &Self) -> bool {
        let told_apart = self.uid.as_ref().zip(other.uid.as_ref()).is_some_and(|(one, another)| one != another);
        self.generation == other.generation && !told_apart
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_that_was_made_again_is_another_version() {
        let of = |uid: Option<&str>, generation: i64| {
            RuleVersion::of(&json!({"metadata": {"uid": uid, "generation": generation}}))
        };
        assert!(of(Some("1"), 1).may_be(&of(Some("1"), 1)));
        for (one, another) in [(of(Some("1"), 1), of(Some("2"), 1)), (of(Some("1"), 1), of(Some("1"), 2))] {
            assert!(!one.may_be(&another) && !another.may_be(&one));
        }
        // An older webhook tells no UID.
        for other in [of(Some("1"), 1), of(None, 1)] {
            assert!(of(None, 1).may_be(&other) && other.may_be(&of(None, 1)));
        }
        assert!(!of(None, 1).may_be(&of(Some("1"), 2)));
        assert_eq!(RuleVersion::of(&json!({})), RuleVersion::default());
    }
}
