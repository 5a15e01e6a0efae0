//! Schemas of references, as rules and as tables, and the objects of such a schema.

use serde_json::{Value, json};

pub(crate) const GROUP: &str = "g.example.com";
pub(crate) const NAMESPACES: [&str; 2] = ["n0", "n1"];
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Name that some references exclude.
const EXCLUDED: &str = NAMES[2];

/// Kinds, and the references between them.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) kinds: Vec<Kind>,
}

/// Kind of objects. Its number in the schema is a part of its name.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) is_namespaced: bool,
    pub(crate) references: Vec<Reference>,
}

/// Field of a kind that refers to objects of another kind.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// The number of the target's kind.
    pub(crate) target: usize,
    /// True: the field is a list of references.
    pub(crate) is_list: bool,
    /// True: the field is a string, which holds that as JSON.
    pub(crate) is_json: bool,
    /// True: a second field says the target's namespace.
    pub(crate) is_qualified: bool,
    /// True: the reference counts only if a third field says the target's kind.
    pub(crate) is_conditional: bool,
    /// True: references to [`EXCLUDED`] don't count.
    pub(crate) is_excluding: bool,
}

/// Identity of an object. Cluster-scoped objects have an empty namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: usize,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
}

/// Object with the values of each of its kind's references.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) values: Vec<Vec<Mention>>,
}

/// Value of a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mention {
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: &'static str,
    /// False: the third field says another kind.
    pub(crate) counts: bool,
}

impl Schema {
    /// Returns a rule for each kind that has references.
    pub(crate) fn rules(&self, on_missing: &str) -> Vec<Value> {
        let dependents = self.kinds.iter().enumerate().filter(|(_, kind)| !kind.references.is_empty());
        let rule = |(number, kind): (usize, &Kind)| {
            let dependencies = kind.references.iter().enumerate().map(|(field, reference)| {
                let into = if reference.is_json { ".fromJSON()" } else { "" };
                let each = if reference.is_list { "[*]" } else { "" };
                let at = format!(".spec.r{field}{into}{each}");
                let mut dependency = json!({
                    "group": GROUP, "version": "v1", "resource": resource(reference.target), "onMissing": on_missing,
                    "fieldRef": {"path": format!("{at}.name")},
                });
                if reference.is_qualified {
                    dependency["fieldRef"]["namespacePath"] = format!("{at}.namespace").into();
                }
                let target = kind_name(reference.target);
                match (reference.is_conditional, reference.is_list) {
                    (true, true) => dependency["when"] = json!({"path": format!("{at}.left"), "notIn": [true]}),
                    // An absent kind is another one, or none of the values.
                    (true, false) if reference.is_qualified => {
                        dependency["kind"] = target.into();
                        dependency["fieldRef"]["kindPath"] = format!("{at}.kind").into();
                        dependency["fieldRef"]["defaultKind"] = "Other".into();
                    }
                    (true, false) => dependency["when"] = json!({"path": format!("{at}.kind"), "in": [target]}),
                    (false, _) => {}
                }
                if reference.is_excluding {
                    dependency["excludeNames"] = json!([EXCLUDED]);
                }
                dependency
            });
            json!({
                "metadata": {"name": resource(number)},
                "spec": {
                    "dependent": {
                        "group": GROUP, "version": "v1", "kind": kind_name(number), "resource": resource(number),
                    },
                    "dependencies": dependencies.collect::<Vec<_>>(),
                },
            })
        };
        dependents.map(rule).collect()
    }

    /// Returns the object as an API server stores it.
    pub(crate) fn to_json(&self, object: &Object) -> Value {
        let Key { kind, namespace, name } = object.key;
        let mut metadata = json!({"name": name, "uid": format!("{kind}-{namespace}-{name}")});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        let mut spec = json!({});
        for (field, (reference, mentions)) in self.kinds[kind].references.iter().zip(&object.values).enumerate() {
            let value = |mention: &Mention| {
                let mut value = json!({"name": mention.name});
                if let (true, Some(namespace)) = (reference.is_qualified, mention.namespace) {
                    value["namespace"] = namespace.into();
                }
                match (reference.is_conditional, reference.is_list, mention.counts) {
                    (true, true, false) => value["left"] = true.into(),
                    (true, false, true) => value["kind"] = kind_name(reference.target).into(),
                    (true, false, false) if mention.namespace.is_some() => value["kind"] = "Other".into(),
                    (true, false, false) | (true, true, true) | (false, ..) => {}
                }
                value
            };
            let mut values = mentions.iter().map(value);
            let held: Value = match (reference.is_list, values.len()) {
                (true, _) => values.collect(),
                (false, 0) => continue,
                (false, _) => values.next().into(),
            };
            spec[format!("r{field}")] = if reference.is_json { held.to_string().into() } else { held };
        }
        let api_version = format!("{GROUP}/v1");
        json!({"apiVersion": api_version, "kind": kind_name(kind), "metadata": metadata, "spec": spec})
    }

    /// Returns the targets that an object's reference of this number means: what its row in a table says.
    pub(crate) fn targets(&self, object: &Object, field: usize) -> Vec<Key> {
        let reference = &self.kinds[object.key.kind].references[field];
        let counting = object.values[field].iter().filter(|mention| reference.counts(mention));
        let target = |mention: &Mention| {
            let said = mention.namespace.filter(|_| reference.is_qualified).unwrap_or(object.key.namespace);
            let namespace = if self.kinds[reference.target].is_namespaced { said } else { "" };
            Key { kind: reference.target, namespace, name: mention.name }
        };
        counting.map(target).collect()
    }
}

impl Reference {
    /// Returns true if a value of the reference means an object.
    pub(crate) fn counts(&self, mention: &Mention) -> bool {
        (mention.counts || !self.is_conditional) && !(self.is_excluding && mention.name == EXCLUDED)
    }
}

pub(crate) fn resource(kind: usize) -> String {
    format!("things{kind}")
}

fn kind_name(kind: usize) -> String {
    format!("Thing{kind}")
}
