use serde_json::{Value, json};

use super::*;

fn values(paths: &[&str], items: &Value) -> Vec<Vec<Option<String>>> {
    let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
    let list = json!({"items": items, "metadata": {"resourceVersion": "1"}}).to_string();
    let mut all = Vec::new();
    Extractor::new(&paths)
        .page(list.as_bytes(), |item| {
            all.push((0..paths.len()).map(|path| item.value(path).map(str::to_owned)).collect());
        })
        .unwrap();
    all
}

fn page(json: &str) -> Result<(Page, Vec<String>), PageError> {
    let mut names = Vec::new();
    Extractor::new([]).page(json.as_bytes(), |item| names.push(item.name().to_owned())).map(|page| (page, names))
}

#[test]
fn only_a_string_is_a_reference() {
    let leaf = |leaf: Value| json!({"metadata": {"name": "m"}, "spec": {"ref": leaf}});
    for (value, expected) in [
        (json!("a"), Some("a")),
        (json!("a\"b\\u00e9"), Some("a\"b\\u00e9")),
        (json!(""), Some("")),
        (json!(1), None),
        (json!(-1), None),
        (json!(1.5), None),
        (json!(true), None),
        (json!(null), None),
        (json!(["a"]), Some("a")),
        (json!([1, null, ["b"], {"c": "c"}, "a", "b"]), Some("a")),
        (json!({"name": "a"}), None),
    ] {
        assert_eq!(values(&[".spec.ref"], &json!([leaf(value)])), [[expected.map(str::to_owned)]]);
    }
}

#[test]
fn a_path_through_anything_but_an_object_leads_nowhere() {
    for spec in [json!(null), json!("ref"), json!([{"ref": "a"}]), json!(1), json!({})] {
        assert_eq!(values(&[".spec.ref"], &json!([{"metadata": {"name": "m"}, "spec": spec}])), [[None]]);
    }
}

#[test]
fn several_paths_are_read_in_one_pass_and_no_object_inherits_from_the_one_before() {
    let items = json!([
        {"metadata": {"name": "m1", "labels": {"a": "x"}}, "spec": {"a": "1", "b": {"c": "2"}}},
        {"spec": {"b": "3"}, "metadata": {"name": "m2"}},
    ]);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        values(&[".spec.a", ".spec.b.c", ".spec.b", ".metadata.name", ".spec.a"], &items),
        [[some("1"), some("2"), None, some("m1"), some("1")], [None, None, some("3"), some("m2"), None]]
    );
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let list =
        r#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"m"},"spec":{"a":"1"},"spec":{"b":"2"}}]}"#;
    let paths = [FieldPath::parse(".spec.a").unwrap(), FieldPath::parse(".spec.b").unwrap()];
    Extractor::new(&paths)
        .page(list.as_bytes(), |item| assert_eq!((item.value(0), item.value(1)), (None, Some("2"))))
        .unwrap();
}

#[test]
fn a_page_tells_its_revision_and_what_follows_wherever_the_metadata_stands() {
    let last = Page { resource_version: Some("7".into()), continue_token: None };
    let more = Page { continue_token: Some("next".into()), ..last.clone() };
    for (json, expected, names) in [
        (r#"{"items":[],"metadata":{"resourceVersion":"7","continue":""}}"#, &last, vec![]),
        (r#"{"items":null,"metadata":{"resourceVersion":"7"}}"#, &last, vec![]),
        (
            r#"{"metadata":{"continue":"next","resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#,
            &more,
            vec!["a"],
        ),
        (r#"{"items":[{"metadata":{"name":"a"}}],"metadata":{}}"#, &Page::default(), vec!["a"]),
    ] {
        assert_eq!(page(json).unwrap(), (expected.clone(), names.into_iter().map(str::to_owned).collect()), "{json}");
    }
}

#[test]
fn what_is_not_a_list_of_named_objects_is_an_error() {
    for json in [
        "",
        "[]",
        "null",
        "{}",
        r#"{"kind":"Status","metadata":{},"status":"Failure"}"#,
        r#"{"items":{}}"#,
        r#"{"items":"x"}"#,
        r#"{"items":[1]}"#,
        r#"{"items":[null]}"#,
        r#"{"items":[{}]}"#,
        r#"{"items":[{"metadata":{"name":""}}]}"#,
        r#"{"items":[{"metadata":{"name":1}}]}"#,
        r#"{"items":[],"items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"items":[{"metadata":{"name":"a"}}]"#,
        r#"{"items":[]}{"items":[]}"#,
    ] {
        assert!(page(json).is_err(), "{json}");
    }
}

#[test]
fn the_longest_path_is_followed_and_deep_nesting_beside_it_passed_over() {
    let path = ["a"; 127].join(".");
    let nested = format!("{}\"x\"{}", "{\"a\":".repeat(126), "}".repeat(126));
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let list = format!(r#"{{"items":[{{"metadata":{{"name":"m"}},"deep":{deep},"a":{nested}}}]}}"#);
    let path = FieldPath::parse(&path).unwrap();
    let result = Extractor::new([&path]).page(list.as_bytes(), |item| assert_eq!(item.value(0), Some("x")));
    result.unwrap();
}

fn taken(paths: &[(&str, Take)], list: &str) -> Vec<Vec<(Vec<u32>, String)>> {
    let paths: Vec<_> = paths.iter().map(|(path, take)| (FieldPath::parse(path).unwrap(), *take)).collect();
    let mut taken = Vec::new();
    Extractor::taking(paths.iter().map(|(path, take)| (path, *take)))
        .page(list.as_bytes(), |item| {
            let hits =
                |path| item.hits(path).iter().map(|hit| (hit.at.taken[..hit.at.len].to_vec(), hit.text.to_string()));
            taken.extend((0..paths.len()).map(|path| hits(path).collect::<Vec<_>>()));
        })
        .unwrap();
    taken
}

fn hit(indices: &[u32], text: &str) -> (Vec<u32>, String) {
    (indices.to_vec(), text.to_owned())
}

#[test]
fn each_value_says_by_which_turns_it_was_reached() {
    let list = r#"{"items":[{"metadata":{"name":"m"},"a":[{"b":["x","y"]},{"c":1},{"b":{"k":"z","l":["w"]}}]}]}"#;
    let paths =
        [(".a[*].b[*]", Take::Texts), (".a[*].b", Take::Texts), (".a[*].b", Take::Keys), (".a[2].b.k", Take::Text)];
    assert_eq!(
        taken(&paths, list),
        [
            vec![hit(&[0, 0], "x"), hit(&[0, 1], "y"), hit(&[2, 0], "z"), hit(&[2, 1], "w")],
            vec![hit(&[0], "x"), hit(&[0], "y")],
            vec![hit(&[2, 0], "k"), hit(&[2, 1], "l")],
            vec![hit(&[], "z")],
        ]
    );
}

#[test]
fn a_value_that_is_kept_as_it_stands_is_read_by_others_as_well() {
    let list = r#"{"items":[{"metadata":{"name":"m"},"s":[{"k": "v", "n": [1] },null]}]}"#;
    let paths = [(".s[*]", Take::Json), (".s[0].k", Take::Text), (".s[*]", Take::Keys), (".s", Take::Json)];
    assert_eq!(
        taken(&paths, list),
        [
            vec![hit(&[0], r#"{"k": "v", "n": [1] }"#), hit(&[1], "null")],
            vec![hit(&[], "v")],
            vec![hit(&[0, 0], "k"), hit(&[0, 1], "n")],
            vec![hit(&[], r#"[{"k": "v", "n": [1] },null]"#)],
        ]
    );
}

#[test]
fn of_a_key_that_stands_twice_in_an_element_the_last_counts_and_other_elements_stay() {
    let list = r#"{"items":[{"metadata":{"name":"m"},"a":[{"b":"1"},{"b":"2","b":"3"},{"b":["4"],"b":null}]}]}"#;
    assert_eq!(taken(&[(".a[*].b", Take::Texts)], list), [[hit(&[0], "1"), hit(&[1], "3")]]);
}

#[test]
fn what_is_no_string_is_counted_where_one_is_looked_for() {
    for (value, path, misfits) in [
        ("1", ".a", 1),
        ("true", ".a", 1),
        ("1.5", ".a", 1),
        ("{}", ".a", 1),
        ("null", ".a", 0),
        (r#""x""#, ".a", 0),
        (r#"["x",1,[],null]"#, ".a", 2),
        ("[1,2]", ".b", 0),
        ("1", ".a.b", 0),
    ] {
        let list = format!(r#"{{"items":[{{"metadata":{{"name":"m"}},"a":{value}}}]}}"#);
        let path = FieldPath::parse(path).unwrap();
        let page = Extractor::new([&path]).page(list.as_bytes(), |item| assert_eq!(item.misfits(), misfits, "{value}"));
        page.unwrap();
    }
}

#[test]
fn an_object_with_too_many_values_is_cut_and_the_next_one_is_not() {
    let names = vec!["x"; Extractor::MAX_VALUES];
    let full = json!({"a": names, "metadata": {"name": "full", "uid": "1"}});
    let many = vec!["x"; Extractor::MAX_VALUES + 1];
    let more = json!({"a": many, "metadata": {"name": "more", "uid": "2"}});
    let list = json!({"items": [full, more, full]}).to_string();
    let path = FieldPath::parse(".a").unwrap();
    let mut read = Vec::new();
    let each = |item: &Item<'_, '_>| {
        read.push((item.name().to_owned(), item.uid().is_some(), item.values(0).count(), item.is_cut()));
    };
    Extractor::new([&path]).page(list.as_bytes(), each).unwrap();
    let most = Extractor::MAX_VALUES;
    let full = ("full".to_owned(), true, most, false);
    assert_eq!(read, [full.clone(), ("more".to_owned(), true, most, true), full]);
}

/// Returns the names of the objects handed out of a list with that value in the middle.
fn searched(names: &[&str], value: &str) -> Vec<String> {
    let list = format!(
        r#"{{"items":[{{"metadata":{{"name":"m1"}},"a":"x"}},{{"metadata":{{"name":"m2"}},"a":{value}}},{{"metadata":{{"name":"m3"}}}}],"metadata":{{"resourceVersion":"1"}}}}"#
    );
    let prefilter = Prefilter::new(names.iter().copied()).unwrap();
    let mut found = Vec::new();
    let path = FieldPath::parse(".a").unwrap();
    let each = |item: &Item<'_, '_>| found.push(item.name().to_owned());
    let page = Extractor::new([&path]).search(list.as_bytes(), Some(&prefilter), each).unwrap();
    assert_eq!(page, Page { resource_version: Some("1".into()), continue_token: None });
    found
}

#[test]
fn only_objects_that_may_hold_a_name_are_handed_out() {
    assert_eq!(searched(&["vpc-7"], r#""vpc-7""#), ["m2"]);
    assert_eq!(searched(&["vpc-7"], r#"{"vpc-7":1}"#), ["m2"]);
    assert_eq!(searched(&["vpc-7"], r#""vpc\u002d7""#), ["m2"]);
    assert_eq!(searched(&["vpc-7", "x"], r#""vpc-7""#), ["m1", "m2"]);
    assert_eq!(searched(&["vpc-7"], r#""vpc-70""#), [""; 0]);
    // The list's own key is no reference, and no reason to hand out all objects.
    assert_eq!(searched(&["items"], "1"), [""; 0]);
}

#[test]
fn what_is_no_list_is_no_list_though_nothing_is_found_in_it() {
    let prefilter = Prefilter::new(["a"]).unwrap();
    for json in [
        "",
        "{}",
        r#"{"items":{},"metadata":{}}"#,
        r#"{"items":[{]}"#,
        r#"{"metadata":{"resourceVersion":"1"},"items":[{}}"#,
    ] {
        assert!(Extractor::new([]).search(json.as_bytes(), Some(&prefilter), |_| ()).is_err(), "{json}");
    }
}

/// Returns the list of one object whose field `a` is that string.
fn holding(text: &str) -> String {
    json!({"items": [{"metadata": {"name": "m"}, "a": text}]}).to_string()
}

#[test]
fn what_a_string_holds_as_json_is_read_by_the_same_paths() {
    let nets = r#" [{"name": "a", "at": ["x"]}, {"name": "b\u0063\"", "ok": {"k": "v", "k": "w"}}, 7]"#;
    let paths = [
        (".a.fromJSON()[*].name", Take::Texts),
        (".a.fromJSON()[1].name", Take::Text),
        (".a.fromJSON()[*].at", Take::Texts),
        (".a.fromJSON()[*].ok", Take::Keys),
        (".a.fromJSON()[*].ok", Take::Json),
        (".a.fromJSON()[*].*.k", Take::Text),
        (".a.fromJSON()", Take::Json),
        (".a", Take::Text),
        (".a.fromJSON()", Take::Texts),
    ];
    assert_eq!(
        taken(&paths, &holding(nets)),
        [
            vec![hit(&[0], "a"), hit(&[1], "bc\"")],
            vec![hit(&[], "bc\"")],
            vec![hit(&[0], "x")],
            vec![hit(&[1, 0], "k"), hit(&[1, 1], "k")],
            vec![hit(&[1], r#"{"k": "v", "k": "w"}"#)],
            vec![hit(&[1, 1], "w")],
            vec![hit(&[], nets.trim_start())],
            vec![hit(&[], nets)],
            vec![],
        ]
    );
    for (text, names) in [(r#"["a", "b"]"#, vec!["a", "b"]), (r#"{"a": "b"}"#, vec![]), ("[]", vec![])] {
        let names: Vec<_> = names.into_iter().map(|name| hit(&[], name)).collect();
        assert_eq!(taken(&[(".a.fromJSON()", Take::Texts)], &holding(text)), [names], "{text}");
    }
}

#[test]
fn a_string_that_holds_no_json_stands_for_itself() {
    for text in ["", "x", "a,b", "\"x\"", "7", "null", "true", "x [1]", "\u{a0}[1]", "(["] {
        let paths = [(".a.fromJSON()", Take::Texts), (".a.fromJSON()", Take::Json), (".a.fromJSON()[*]", Take::Texts)];
        let json = Value::from(text).to_string();
        assert_eq!(taken(&paths, &holding(text)), [vec![hit(&[], text)], vec![hit(&[], &json)], vec![]], "{text}");
    }
}

/// Reads one value at a path into JSON: the strings, the number of misfits, and if values are missing.
fn read_json(value: &str, path: &str) -> (Vec<String>, usize, bool) {
    let list =
        format!(r#"{{"items":[{{"metadata":{{"name":"m"}},"a":{value}}},{{"metadata":{{"name":"n"}},"a":"x"}}]}}"#);
    let path = FieldPath::parse(path).unwrap();
    let mut read = Vec::new();
    let each = |item: &Item<'_, '_>| {
        assert!(item.is_cut() == item.is_path_broken(0) && !item.is_path_cut(0));
        read.push((item.values(0).map(str::to_owned).collect(), item.misfits(), item.is_cut()));
    };
    Extractor::new([&path]).page(list.as_bytes(), each).unwrap();
    assert!(!read[1].2, "the next object is readable");
    read.swap_remove(0)
}

#[test]
fn json_that_cannot_be_read_to_its_end_leaves_no_value_and_says_so() {
    let quoted = |text: &str| Value::from(text).to_string();
    for broken in [
        r#"[{"n": "a"}"#,
        "[",
        "{",
        r#" {"n"}"#,
        r#"[{"n": "a"}] x"#,
        r#"[{"n": "a"}] []"#,
        r#"[{"n": "a"}, n]"#,
        r#"[{"n": "\q"}]"#,
        r#"[{"n": "\ud800"}]"#,
        "[{n: a}]",
        "{x}",
        "[1 2]",
    ] {
        assert_eq!(read_json(&quoted(broken), ".a.fromJSON()[*].n"), (vec![], 0, true), "{broken}");
        // Who doesn't ask for the JSON doesn't care.
        assert_eq!(read_json(&quoted(broken), ".a"), (vec![broken.to_owned()], 0, false), "{broken}");
    }
    for (whole, names) in [(r#"[{"n": "a"}]"#, vec!["a"]), (r#"[{"n": "a"}] "#, vec!["a"]), ("[{}, 1, null]", vec![])] {
        assert_eq!(read_json(&quoted(whole), ".a.fromJSON()[*].n").0, names, "{whole}");
    }
    // Only a string holds JSON; that another value is none is counted in no way, as on the way of any path.
    for value in ["7", "null", r#"{"n": "a"}"#, r#"[{"n": "a"}]"#] {
        assert_eq!(read_json(value, ".a.fromJSON()[*].n"), (vec![], 0, false), "{value}");
    }
    // What a string holds is anybody's.
    assert_eq!(read_json(&quoted(r#"[{"n": 7}, {"n": {}}]"#), ".a.fromJSON()[*].n"), (vec![], 0, false));
}

#[test]
fn of_a_string_that_stands_twice_the_last_counts_and_doubt_stays() {
    let of = |one: &str, other: &str| {
        let list = format!(r#"{{"items":[{{"metadata":{{"name":"m"}},"a":{},"a":{}}}]}}"#, json!(one), json!(other));
        let path = FieldPath::parse(".a.fromJSON()[*]").unwrap();
        let mut read = (Vec::new(), false);
        let each = |item: &Item<'_, '_>| read = (item.values(0).map(str::to_owned).collect(), item.is_cut());
        Extractor::new([&path]).page(list.as_bytes(), each).unwrap();
        read
    };
    assert_eq!(of(r#"["x"]"#, r#"["y"]"#), (vec!["y".to_owned()], false));
    assert_eq!(of(r#"["x"]"#, r#"["y"#), (vec![], true));
    assert_eq!(of(r#"["x"#, r#"["y"]"#), (vec!["y".to_owned()], true));
}

#[test]
fn deep_json_costs_no_stack_and_many_copies_are_cut() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let path = FieldPath::parse(".a.fromJSON()[0].n").unwrap();
    let read = Extractor::new([&path]).page(holding(&deep).as_bytes(), |item| assert!(!item.is_cut()));
    read.unwrap();
    // Each slot keeps its own copy of what stands in a string: the first ones, up to a limit.
    let long = format!("[\"{}\"]", "x".repeat(1 << 20));
    let paths: Vec<_> = std::iter::repeat_n(FieldPath::parse(".a.fromJSON()").unwrap(), 20).collect();
    let each = |item: &Item<'_, '_>| {
        let kept = (0..20).filter(|path| item.value(*path).is_some()).count();
        let cut = (0..20).filter(|path| item.is_path_cut(*path)).count();
        assert!(item.is_cut() && kept > 0 && kept < 9 && kept + cut == 20, "{kept}, {cut}");
    };
    Extractor::new(&paths).page(holding(&long).as_bytes(), each).unwrap();
    Extractor::new(&paths[..4]).page(holding(&long).as_bytes(), |item| assert!(!item.is_cut())).unwrap();
}
