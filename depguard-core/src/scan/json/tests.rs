use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Tree};

use super::*;

/// Reads the whole document with this reader alone; each number and boolean becomes 0.
fn tree(bytes: &[u8]) -> Result<Tree, Malformed> {
    let mut json = Json::new(bytes);
    let tree = value(&mut json)?;
    json.finish()?;
    Ok(tree)
}

fn value(json: &mut Json<'_>) -> Result<Tree, Malformed> {
    Ok(match json.value()? {
        Value::String(text) => text.text()?.into(),
        Value::Null => Tree::Null,
        Value::Other => 0.into(),
        Value::List => {
            let (mut list, mut more) = (Vec::new(), json.first_element());
            while more {
                list.push(value(json)?);
                more = json.next_element()?;
            }
            list.into()
        }
        Value::Map => {
            let (mut map, mut next) = (Map::new(), json.first_key()?);
            while let Some(key) = next {
                map.insert(key.text()?.into_owned(), value(json)?);
                next = json.next_key()?;
            }
            map.into()
        }
    })
}

/// Reads the document with `serde_json`, into the same form.
fn expected(bytes: &[u8]) -> Option<Tree> {
    fn other(tree: &mut Tree) {
        match tree {
            Tree::Bool(_) | Tree::Number(_) => *tree = 0.into(),
            Tree::Array(list) => list.iter_mut().for_each(other),
            Tree::Object(map) => map.values_mut().for_each(other),
            Tree::Null | Tree::String(_) => {}
        }
    }
    let mut tree = serde_json::from_slice(bytes).ok()?;
    other(&mut tree);
    Some(tree)
}

fn skipped(bytes: &[u8]) -> Result<(), Malformed> {
    let mut json = Json::new(bytes);
    json.skip()?;
    json.finish()
}

/// Returns the document with empty strings, and with 0 for each number.
fn emptied(bytes: &[u8]) -> Vec<u8> {
    let (mut emptied, mut rest) = (Vec::new(), bytes);
    while let Some((first, mut after)) = rest.split_first() {
        emptied.push(*first);
        if *first == b'"' {
            loop {
                match after {
                    [b'\\', _, rest @ ..] => after = rest,
                    [b'"', rest @ ..] => {
                        emptied.push(b'"');
                        after = rest;
                        break;
                    }
                    [_, rest @ ..] => after = rest,
                    [] => break,
                }
            }
        } else if matches!(first, b'-' | b'0'..=b'9') {
            *emptied.last_mut().unwrap() = b'0';
            let part = |byte: &u8| b"0123456789+-.eE".contains(byte);
            after = &after[after.iter().take_while(|byte| part(byte)).count()..];
        }
        rest = after;
    }
    emptied
}

#[test]
fn strings_say_what_serde_json_reads() {
    for json in [
        r#""""#,
        r#""a""#,
        r#""seven b""#,
        r#""eight by""#,
        r#""more than sixteen bytes, and an \" quote""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u0041\u00e9\u20ac\ud83d\ude00\uFFFF""#,
        "\"é€😀\u{7f}\"",
        r#""\\""#,
        r#""\\\\\\\"""#,
    ] {
        assert_eq!(tree(json.as_bytes()).unwrap(), serde_json::from_str::<Tree>(json).unwrap(), "{json}");
        assert_eq!(skipped(json.as_bytes()), Ok(()), "{json}");
    }
}

#[test]
fn a_string_that_is_wrong_inside_is_passed_over_but_not_read() {
    for json in [
        &br#""\x""#[..],
        br#""\u12""#,
        br#""\u+123""#,
        br#""\ud800""#,
        br#""\ud800\u0041""#,
        br#""\ud800\ue000""#,
        br#""\udc00""#,
        b"\"\x01\"",
        b"\"\\n\x01\"",
        b"\"\xff\"",
        b"\"\\n\xff\"",
    ] {
        let shown = String::from_utf8_lossy(json);
        assert!(serde_json::from_slice::<Tree>(json).is_err(), "{shown}");
        assert!(tree(json).is_err(), "{shown}");
        assert_eq!(skipped(json), Ok(()), "{shown}");
    }
}

#[test]
fn structure_is_always_checked() {
    for json in [
        "",
        " ",
        "{",
        "[",
        "}",
        "]",
        "[}",
        "{]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[[]",
        "[]]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "\"",
        "\"a",
        "\"a\\\"",
        "\"\\",
        "tru",
        "truer",
        "nul",
        "True",
        "+1",
        ".1",
        "NaN",
        "1 1",
        "[] []",
        "{}x",
        "[{}}",
        "[1,2}",
        "{\"a\":[1}]",
        "[[1],{\"a\":[}]]",
        "\u{feff}1",
        "/**/1",
        "'a'",
        "\u{b}1",
    ] {
        assert!(tree(json.as_bytes()).is_err(), "{json}");
        assert!(skipped(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn brackets_are_matched_however_deep() {
    for depth in [1, 62, 63, 64, 65, 127, 128, 129, 200, 100_000] {
        let kind = |level: usize| level.is_multiple_of(3) || level % 7 == 1;
        let open: String = (0..depth).map(|level| if kind(level) { "[" } else { "{\"a\":" }).collect();
        let close: String = (0..depth).rev().map(|level| if kind(level) { "]" } else { "}" }).collect();
        let whole = format!("{open}1{close}");
        assert_eq!(skipped(whole.as_bytes()), Ok(()), "{depth}");
        for at in [0, depth / 3, depth / 2, depth - 1] {
            let mut wrong = whole.clone().into_bytes();
            let bracket = &mut wrong[open.len() + 1 + at];
            *bracket = if *bracket == b']' { b'}' } else { b']' };
            assert!(skipped(&wrong).is_err(), "{depth} {at}");
        }
        assert!(skipped(format!("{open}1{}", &close[1..]).as_bytes()).is_err());
    }
}

#[test]
fn an_error_says_what_was_expected_where() {
    let error = skipped(br#"{"a": [1, }]}"#).unwrap_err();
    assert_eq!(error.to_string(), "expected a value at byte 10");
    let error = tree(b"\"abc\xff\"").unwrap_err();
    assert_eq!(error.to_string(), "expected UTF-8 at byte 4");
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let text = prop_oneof![3 => "[a-c\"\\\\/\u{0}é😀]{0,20}", 1 => any::<String>()];
    let leaf = prop_oneof![
        1 => Just(Tree::Null),
        1 => any::<bool>().prop_map(Tree::from),
        1 => any::<i64>().prop_map(Tree::from),
        1 => any::<f64>().prop_map(Tree::from),
        3 => text.clone().prop_map(Tree::from),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Tree::from),
            vec((text.clone(), inner), 0..5).prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Generates JSON, compact or not, with a few random changes.
fn document() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&str; 28] = [
        "",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "0",
        "-",
        "1e400",
        "1.2.3",
        "\\",
        "\\u0000",
        "\\ud800",
        "\\ud83d\\ude00",
        "\u{0}",
        "é",
        "\"a\"",
        "\"a\":",
        "\"a\":1,",
        "[],",
        " ",
        "\n",
        "\u{b}",
        "x",
    ];
    let piece =
        prop_oneof![9 => select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1)];
    (any_tree(), any::<bool>(), vec((any::<Index>(), 0_usize..4, piece), 0..4)).prop_map(|(tree, pretty, edits)| {
        let mut bytes = if pretty { format!("{tree:#}") } else { tree.to_string() }.into_bytes();
        for (at, remove, piece) in edits {
            let start = at.index(bytes.len() + 1);
            let end = (start + remove).min(bytes.len());
            bytes.splice(start..end, piece);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn all_json_is_read_as_serde_json_reads_it(bytes in document()) {
        if let Some(expected) = expected(&bytes) {
            prop_assert_eq!(tree(&bytes).unwrap(), expected);
            prop_assert_eq!(skipped(&bytes), Ok(()));
        } else if tree(&bytes).is_ok() {
            // The reader doesn't check that a number is well-formed and can be represented.
            let mut numbers = bytes.split(|byte| !b"0123456789+-.eE".contains(byte)).filter(|run| !run.is_empty());
            prop_assert!(numbers.any(|run| serde_json::from_slice::<Tree>(run).is_err()));
        }
    }

    #[test]
    fn what_is_passed_over_is_json_but_for_what_is_inside_of_strings_and_numbers(
        bytes in prop_oneof![document(), vec(any::<u8>(), 0..40), vec(select(&b"{}[]:,\"\\ 1a"[..]), 0..12)],
    ) {
        let structure = serde_json::from_slice::<Tree>(&emptied(&bytes));
        prop_assert_eq!(skipped(&bytes).is_ok(), structure.is_ok(), "{}", String::from_utf8_lossy(&bytes));
    }
}
