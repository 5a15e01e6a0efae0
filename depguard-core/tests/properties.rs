//! Properties of the parsers: no input makes a parser panic, and printing a parsed value gives the written one.

use depguard_core::model::{Kind, Namespace, Resource, Version};
use depguard_core::rule::PartialRule;
use depguard_core::scan::Extractor;
use depguard_core::{
    Context, ControlPlane, ExportName, FieldPath, Group, LogicalCluster, Review, Rule, RuleSet, WorkspacePath,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

// === Inputs ===

/// Generates texts that are nearly a name or a path, and texts that are neither.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.:-]{0,20}",
        "\\.?([a-zA-Z_][a-zA-Z0-9_]{0,5}\\.){0,4}[a-zA-Z_0-9.]{0,3}",
        "v[0-9]{1,3}[a-z]{0,5}[0-9]{0,2}",
        "[A-Z][A-Za-z0-9]{0,9}",
        "[a-z.]{250,256}",
        "\\.?[a-z.\\[\\]*'\"0-9\\\\$-]{0,16}",
        ".{0,12}",
        any::<String>(),
    ]
}

/// Generates keys of rules, reviews and lists, so that values land where they are read.
fn key() -> impl Strategy<Value = String> {
    let known = vec![
        "metadata",
        "name",
        "namespace",
        "uid",
        "annotations",
        "kcp.io/cluster",
        "generation",
        "spec",
        "dependent",
        "dependencies",
        "apiExportName",
        "apiExportRef",
        "path",
        "group",
        "version",
        "kind",
        "resource",
        "fieldRef",
        "request",
        "operation",
        "oldObject",
        "userInfo",
        "groups",
        "items",
        "continue",
        "resourceVersion",
        "a",
        "b",
    ];
    prop_oneof![9 => select(known).prop_map(str::to_owned), 1 => text()]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        select(vec!["DELETE", "root:a", "a.example.com", "v1", "vpcs", "VPC", ".spec.ref"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key(), inner), 0..5).prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Generates a valid document in which one value was replaced.
fn spoilt(right: Value) -> impl Strategy<Value = Value> {
    let places = places(&right, "");
    (any::<Index>(), json_value()).prop_map(move |(at, value)| {
        let mut spoilt = right.clone();
        *spoilt.pointer_mut(&places[at.index(places.len())]).unwrap() = value;
        spoilt
    })
}

fn places(json: &Value, at: &str) -> Vec<String> {
    let inner: Vec<_> = match json {
        Value::Object(map) => map.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let inner = inner.into_iter().flat_map(|(key, value)| places(value, &format!("{at}/{key}")));
    inner.chain([at.to_owned()]).collect()
}

/// Generates the same document as bytes; some bytes may be lost or changed.
fn bytes(json: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<u8>> {
    let whole = json.prop_map(|json| json.to_string().into_bytes());
    (whole, prop::option::of((any::<Index>(), any::<u8>())), prop::option::of(any::<Index>())).prop_map(
        |(mut bytes, change, cut)| {
            if let Some((at, byte)) = change {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        },
    )
}

fn a_rule() -> Value {
    json!({
        "metadata": {"name": "rule", "generation": 1, "annotations": {"kcp.io/cluster": "c1"}},
        "spec": {
            "dependent": {
                "apiExportName": "a.example.com", "group": "a.example.com", "version": "v1", "kind": "VM", "resource": "vms",
            },
            "dependencies": [{
                "apiExportRef": {"path": "root:a", "name": "b.example.com"},
                "group": "b.example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.ref"},
            }],
        },
    })
}

fn a_review() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "1", "operation": "DELETE", "object": null, "dryRun": false,
        "resource": {"group": "b.example.com", "version": "v1", "resource": "vpcs"},
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "oldObject": {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "annotations": {"kcp.io/cluster": "c1"}}},
    }})
}

fn a_list() -> Value {
    json!({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": [
        {"metadata": {"name": "m1", "namespace": "ns", "uid": "1"}, "a": {"b": "x"}, "b": {"c": [1, {}]}},
        {"metadata": {"name": "m2"}, "a": "y"},
    ]})
}

// === Names and paths ===

fn path() -> impl Strategy<Value = String> {
    "\\.?[a-zA-Z_][a-zA-Z0-9_]{0,12}(\\.[a-zA-Z_][a-zA-Z0-9_]{0,12}){0,6}"
}

/// Generates a path with every kind of step.
fn any_path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        "\\.[a-zA-Z_][a-zA-Z0-9_]{0,5}",
        "\\['[^'\\\\\\p{Cc}]{1,6}'\\]",
        "\\[\"[^\"\\\\\\p{Cc}]{1,6}\"\\]",
        Just(r#"['it\'s \\ \"so\"']"#.to_owned()),
        "\\[(0|[1-9][0-9]{0,8})\\]",
    ];
    let wildcard = prop::sample::select(vec!["[*]", ".*"]).prop_map(str::to_owned);
    let json = prop::option::of(any::<Index>());
    (vec(name, 1..8), vec((any::<Index>(), wildcard), 0..=4), json).prop_map(|(mut steps, wildcards, json)| {
        for (at, wildcard) in wildcards {
            steps.insert(at.index(steps.len() + 1), wildcard);
        }
        if let Some(at) = json {
            steps.insert(1 + at.index(steps.len()), ".fromJSON()".to_owned());
        }
        steps.concat()
    })
}

proptest! {
    #[test]
    fn a_path_is_parsed_as_it_was_written(written in path()) {
        let parsed = FieldPath::parse(&written).unwrap();
        let printed = parsed.to_string();
        prop_assert_eq!(printed.strip_prefix('.'), Some(written.strip_prefix('.').unwrap_or(&written)));
        prop_assert_eq!(FieldPath::parse(&printed).unwrap(), parsed);
    }

    #[test]
    fn any_path_that_is_printed_is_parsed_as_it_was(written in any_path()) {
        let parsed = FieldPath::parse(&written).unwrap();
        let printed = parsed.to_string();
        prop_assert_eq!(FieldPath::parse(&printed).unwrap(), parsed.clone());
        // Printing a path again gives the same text, no longer than a path may be.
        prop_assert_eq!(FieldPath::parse(&printed).unwrap().to_string(), printed.clone());
        prop_assert!(printed.len() <= FieldPath::MAX_LEN + 1);
    }

    #[test]
    fn a_path_is_printed_as_one_or_refused_at_an_offset_in_it(text in text()) {
        match FieldPath::parse(&text) {
            Ok(path) => prop_assert_eq!(FieldPath::parse(&path.to_string()).unwrap(), path),
            Err(error) => {
                prop_assert!(error.offset <= text.len() && text.is_char_boundary(error.offset) || text.len() > 253);
                prop_assert!(error.to_string().len() < 2_000);
            }
        }
    }

    #[test]
    fn a_name_stays_as_it_is_in_a_url(text in text()) {
        let parsed = [
            LogicalCluster::parse(&text).map(|name| name.to_string()),
            WorkspacePath::parse(&text).map(|name| name.to_string()),
            ExportName::parse(&text).map(|name| name.to_string()),
            Group::parse(&text).map(|name| name.to_string()),
            Version::parse(&text).map(|name| name.to_string()),
            Kind::parse(&text).map(|name| name.to_string()),
            Resource::parse(&text).map(|name| name.to_string()),
            Namespace::parse(&text).map(|name| name.to_string()),
        ];
        for (index, parsed) in parsed.into_iter().enumerate() {
            match parsed {
                Ok(name) => {
                    prop_assert_eq!(&name, &text);
                    prop_assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || b".:-".contains(&c)));
                    prop_assert!(!name.contains("..") && !name.starts_with('.'));
                    prop_assert!(!name.is_empty() || index == 3, "only a group may be empty");
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

// === Rules and reviews ===

proptest! {
    #[test]
    fn any_json_is_a_rule_or_an_error(json in prop_oneof![json_value(), spoilt(a_rule())], kcp: bool) {
        let control_plane = if kcp { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
        let (rule, partial) = (Rule::parse(control_plane, &json), PartialRule::read(control_plane, &json));
        let set = RuleSet::load(control_plane, [&json]);
        match (rule, partial) {
            (Ok(rule), partial) => {
                // A usable rule has a lenient reading that equals the rule: a spoilt rule keeps the same values.
                let partial = partial.expect("a partial rule");
                let dependent = rule.dependent();
                prop_assert_eq!(&partial.key, rule.key());
                prop_assert_eq!(&partial.dependent_export, &dependent.export);
                prop_assert_eq!(&partial.dependent, &dependent.gvr.group_resource());
                let targets: Vec<_> =
                    rule.edges().iter().map(|edge| (edge.target.export.clone(), edge.target.gvr.group_resource())).collect();
                prop_assert_eq!(&partial.targets, &targets);
                for (_, target) in targets {
                    prop_assert!(set.names(target.group.as_str(), target.resource.as_str()));
                }
            }
            (Err(error), partial) => {
                prop_assert!(!error.to_string().is_empty());
                for (_, target) in partial.into_iter().flat_map(|partial| partial.targets) {
                    prop_assert!(set.names(target.group.as_str(), target.resource.as_str()));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_review_or_an_error(
        bytes in prop_oneof![vec(any::<u8>(), 0..60), bytes(json_value()), bytes(spoilt(a_review()))],
        kcp: bool,
    ) {
        let control_plane = if kcp { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
        if let Ok(review) = Review::parse(&bytes) {
            let mut evaluation = RuleSet::load(control_plane, [&a_rule()]).evaluate(&review, &Context::default());
            for query in evaluation.queries() {
                let path = query.path;
                prop_assert!(path.is_ascii() && !path.contains("..") && !path.contains("//"));
            }
            serde_json::from_slice::<Value>(&evaluation.decide().to_review(review.uid())).unwrap();
        }
    }
}

// === Lists ===

/// Generates short paths over the keys that objects are likely to have.
fn short_path() -> impl Strategy<Value = FieldPath> {
    vec(select(vec!["a", "b", "c", "metadata", "name"]), 1..4)
        .prop_map(|names| FieldPath::parse(&names.join(".")).unwrap())
}

/// Generates an object with a name and any values under those keys.
fn item() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![3 => "[a-c\"\\\\é]{0,3}".prop_map(Value::from), 1 => Just(json!(1)), 1 => Just(Value::Null)];
    let value = leaf.prop_recursive(4, 24, 4, |inner| {
        let entry = (select(vec!["a", "b", "c", "name"]), inner.clone());
        prop_oneof![
            4 => vec(entry, 0..4).prop_map(|entries| {
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
            }),
            1 => vec(inner, 0..3).prop_map(Value::from),
        ]
    });
    (vec((select(vec!["a", "b", "c"]), value), 0..4), "[a-z]{1,3}").prop_map(|(entries, name)| {
        let mut item: Map<_, _> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        item.insert("metadata".to_owned(), json!({"name": name}));
        item.into()
    })
}

proptest! {
    #[test]
    fn a_value_is_what_stands_at_the_path(paths in vec(short_path(), 1..5), items in vec(item(), 0..5)) {
        let list = json!({"items": items, "metadata": {"resourceVersion": "1"}}).to_string();
        let mut read = Vec::new();
        Extractor::new(&paths)
            .page(list.as_bytes(), |item| {
                read.push((0..paths.len()).map(|path| item.value(path).map(str::to_owned)).collect::<Vec<_>>());
            })
            .unwrap();
        let at = |item: &Value, path: &FieldPath| {
            let value = item.pointer(&path.to_string().replace('.', "/"))?;
            // A list stands for its first string.
            let value = value.as_str().or_else(|| value.as_array()?.iter().find_map(Value::as_str));
            value.map(str::to_owned)
        };
        let expected: Vec<Vec<_>> = items.iter().map(|item| paths.iter().map(|path| at(item, path)).collect()).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn any_bytes_are_a_page_or_an_error(
        bytes in prop_oneof![vec(any::<u8>(), 0..60), bytes(json_value()), bytes(spoilt(a_list()))],
        paths in vec(short_path(), 0..4),
    ) {
        let mut names = 0;
        let page = Extractor::new(&paths).page(&bytes, |item| names += usize::from(!item.name().is_empty()));
        // `serde_json` refuses values that the extractor skips, such as too large numbers and broken UTF-8.
        if let (Ok(_), Ok(json)) = (page, serde_json::from_slice::<Value>(&bytes)) {
            prop_assert_eq!(names, json["items"].as_array().map_or(0, Vec::len));
        }
    }
}
