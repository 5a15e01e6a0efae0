use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cluster::documents;

/// Reads a file's objects; `Err` has the message of the first error, and the number of objects before it.
fn read_text(text: &str) -> Result<Vec<(usize, Value)>, (usize, String)> {
    let (objects, failure) = read("f", text.as_bytes(), &ProgressBar::hidden());
    let count = objects.records.len();
    match failure {
        Some(why) => Err((count, why.message().to_owned())),
        None => Ok(values(&objects)),
    }
}

fn values(objects: &FileObjects) -> Vec<(usize, Value)> {
    let value = |record: &ObjectRecord| (record.origin.line, (*record.text.to_value().unwrap()).clone());
    objects.records.iter().map(value).collect()
}

/// Reads the same by trees of whole documents.
fn read_trees(text: &str) -> Result<Vec<(usize, Value)>, String> {
    let mut texts = Vec::new();
    documents::parse("f", text.as_bytes(), &mut texts).map_err(|why| why.message().to_owned())?;
    let documents = texts.into_iter().map(|text| text.document);
    let objects = documents.filter(|document| is_manifest(&document.value));
    Ok(objects.map(|document| (document.origin.line, (*document.value).clone())).collect())
}

fn vpc(name: &str) -> Value {
    json!({"apiVersion": "n.example.com/v1", "kind": "VPC", "metadata": {"name": name}})
}

#[test]
fn a_list_is_read_as_its_items_wherever_its_type_stands() {
    let (a, b) = (vpc("a"), vpc("b"));
    let bare = |name: &str| json!({"metadata": {"name": name}});
    for (text, expected) in [
        (json!({"kind": "List", "items": [a, b]}).to_string(), vec![a.clone(), b.clone()]),
        (format!("apiVersion: v1\nitems: [{a}, {b}]\nkind: List\n"), vec![a.clone(), b.clone()]),
        // A raw list: only the list has a type, before its items or behind them.
        (
            format!(r#"{{"kind":"VPCList","apiVersion":"n.example.com/v1","metadata":{{}},"items":[{}]}}"#, bare("a")),
            vec![a.clone()],
        ),
        (format!("items: [{}]\napiVersion: n.example.com/v1\nkind: VPCList\n", bare("a")), vec![a.clone()]),
        // Lists in a list.
        (format!("kind: List\nitems: [{{kind: List, items: [{a}]}}, {b}, null]\n"), vec![a.clone(), b]),
        ("kind: List\nitems:\n".to_owned(), vec![]),
        // Objects with a field of that name.
        (
            format!("apiVersion: v1\nkind: ToDoList\nmetadata: {{name: x}}\nitems: [1, {a}]\n"),
            vec![json!({"apiVersion": "v1", "kind": "ToDoList", "metadata": {"name": "x"}, "items": [1, a]})],
        ),
        (
            "items: {a: [1]}\napiVersion: v1\nkind: Shelf\n".to_owned(),
            vec![json!({"apiVersion": "v1", "kind": "Shelf", "items": {"a": [1]}})],
        ),
    ] {
        let read: Vec<_> = read_text(&text).unwrap().into_iter().map(|(_, value)| value).collect();
        assert_eq!(read, expected, "{text}");
    }
    for (text, message) in [
        ("kind: List\nitems: [1]\n", "f:1: not an object"),
        ("# c\nkind: List\nitems: {a: 1}\n", "f:2: `items` is not a list"),
        ("- {apiVersion: v1, kind: A}\n", "f:1: not an object"),
        ("kind: List\nitems: [{a: 1, a: 2}]\n", "f:2: neither YAML nor JSON: duplicate field `a`"),
        ("kind: List\nitems: []\nitems: []\n", "f:3: neither YAML nor JSON: duplicate field `items`"),
    ] {
        assert_eq!(read_text(text).unwrap_err(), (0, message.to_owned()), "{text}");
    }
}

#[test]
fn a_document_that_is_no_object_and_holds_none_hides_no_other() {
    for foreign in ["- 1", "just words", "- {op: remove, path: /a}", "7"] {
        let (objects, failure) =
            read("f", format!("{foreign}\n---\n{}\n", vpc("a")).as_bytes(), &ProgressBar::hidden());
        assert_eq!((failure, values(&objects)), (None, vec![(3, vpc("a"))]), "{foreign}");
        assert_eq!(objects.foreign, [Origin { file: "f".into(), line: 1 }], "{foreign}");
    }
}

#[test]
fn the_documents_of_a_long_file_keep_their_order_and_end_at_the_first_mistake() {
    let document = |index: usize| format!("---\n{}\n", vpc(&index.to_string()));
    let long: String = (0..5_000).map(document).collect();
    let names: Vec<_> = read_text(&long).unwrap().into_iter().map(|(_, vpc)| vpc["metadata"]["name"].clone()).collect();
    assert_eq!(names, (0..5_000).map(|index| json!(index.to_string())).collect::<Vec<_>>());

    let mistakes = [700, 1_900, 4_999].map(|line| line * 2 + 1);
    let lines = long.lines().enumerate().map(|(index, line)| if mistakes.contains(&index) { "a: [" } else { line });
    let (count, message) = read_text(&lines.collect::<Vec<_>>().join("\n")).unwrap_err();
    assert_eq!(count, 700);
    assert!(message.starts_with("f:1402:") || message.starts_with("f:1403:"), "{message}");
}

#[test]
fn a_list_is_as_long_as_it_likes_but_aliases_and_depth_have_limits() {
    let item = format!("- {}\n", json!({"apiVersion": "v1", "kind": "A", "list": vec![0; 100]}));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(2_500));
    assert_eq!(read_text(&list).unwrap().len(), 2_500);

    let bomb: String =
        (1..9).map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10))).collect();
    let bomb =
        format!("kind: List\nitems:\n- a0: &a0 [x]\n{}", bomb.lines().map(|l| format!("  {l}\n")).collect::<String>());
    assert!(read_text(&bomb).unwrap_err().1.contains("aliases"));
    assert!(read_text(&format!("kind: List\nitems: [{}", "[".repeat(5_000))).unwrap_err().1.contains("limit"));
}

#[test]
fn marks_of_documents_are_seen_as_yaml_has_them() {
    let (a, b) = (vpc("a"), vpc("b"));
    for text in [
        format!("\u{feff}{a}\r\n---\r\n{b}\r\n"),
        format!("%YAML 1.2\n--- # first\n{a}\n... # end\n---\n# nothing\n--- {b}\n...\n"),
        format!("{a}\n...\n# between\n%YAML 1.2\n---\n{b}"),
        format!("---\n---\n{a}\n---\t\n{b}\n---"),
    ] {
        let read: Vec<_> = read_text(&text).unwrap().into_iter().map(|(_, value)| value).collect();
        assert_eq!(read, [a.clone(), b.clone()], "{text}");
    }
}

/// Text of one document, in several styles.
fn document() -> impl Strategy<Value = String> {
    let word = "[a-z]{1,6}|--- x|\\.\\.\\.|---|# no comment|%x|'|\"|é";
    let scalar = prop_oneof![
        word.prop_map(|word| json!(word).to_string()),
        any::<i32>().prop_map(|number| number.to_string()),
        Just("plain ---text".to_owned()),
        Just("~".to_owned()),
        Just("1.5".to_owned()),
        vec(word, 1..4)
            .prop_map(|lines| format!("|\n{}", lines.iter().map(|l| format!("    {l}\n")).collect::<String>())),
        vec("[a-z]{1,5}", 1..3).prop_map(|lines| format!("\"{}\"", lines.join("\n   --- "))),
        vec("[a-z]{0,3}", 0..3)
            .prop_map(|items| format!("[{}]", items.iter().map(|i| format!("'{i}',")).collect::<String>())),
    ];
    vec(("[a-c]", scalar), 0..4).prop_map(|fields| {
        let mut text = "apiVersion: v1\nkind: A\n".to_owned();
        for (index, (name, value)) in fields.iter().enumerate() {
            text.push_str(&format!("{name}{index}: {}\n", value.trim_end_matches('\n')));
        }
        text
    })
}

/// Line between two documents.
fn between() -> impl Strategy<Value = String> {
    "---\n|---  \n|--- # c\n|# c\n---\n|\\.\\.\\.\n---\n|\\.\\.\\.\n# c\n---\n|---\n---\n|\\.\\.\\. # c\n---\n|---\n\n# c\n\n"
}

proptest! {
    #[test]
    fn the_objects_are_the_documents_that_the_yaml_parser_finds(
        documents in vec((between(), document()), 1..6),
        crlf in any::<bool>(),
        end in "|\\.\\.\\.\n|---\n|# c\n",
    ) {
        let mut text: String = documents.iter().flat_map(|(between, document)| [between.as_str(), document]).collect();
        text.push_str(&end);
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        let whole: Vec<Value> = yaml::read_all(&text).unwrap();
        let read: Vec<_> = read_text(&text).unwrap().into_iter().map(|(_, value)| value).collect();
        prop_assert_eq!(&read, &whole, "{}", text);
        prop_assert_eq!(read_trees(&text).unwrap(), read_text(&text).unwrap());
    }

    #[test]
    fn any_text_is_read_as_by_whole_trees(text in "(apiVersion: v1\n|kind: (List|AList|A)\n|items:\n|- kind: A\n|  apiVersion: v\n|metadata: \\{(name: x)?\\}\n|items: \\[\\{kind: A, apiVersion: b\\}, [1x]\\]\n|---\n|\\.\\.\\.\n|[-a:{}\\[\\]&*!|>%@ \\n\"'0-9#.]{0,9}\n){0,9}") {
        match (read_text(&text), read_trees(&text)) {
            (Ok(records), Ok(trees)) => prop_assert_eq!(records, trees),
            (Err((_, message)), Err(expected)) => prop_assert_eq!(message, expected),
            (records, trees) => prop_assert!(false, "{:?}\n{:?}", records, trees),
        }
    }
}
