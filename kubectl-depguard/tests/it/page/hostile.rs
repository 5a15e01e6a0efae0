use serde_json::json;

use crate::page::chromium::Chromium;
use crate::tool::{depguard, write};

const RULE: &str = r#"{"apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "vms"}, "spec": {
  "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
  "dependencies": [{"group": "n.example.com", "version": "v1", "kind": "Net", "resource": "nets", "fieldRef": {"path": ".spec.net"}}]}}"#;

/// Names that a tenant might choose to leave the text that a page makes of them.
const NAMES: [&str; 8] = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=alert(1)>",
    "a\nb\r\n\u{1b}[201~; rm -rf ~ #",
    "\u{202e}gnp.yrevo\u{2066}",
    "\u{2028}'); alert(1); ('",
    "$(touch owned); `id`",
    "-rf",
];

#[tokio::test]
async fn names_of_tenants_are_text_and_never_markup_nor_commands() {
    let object = |group: &str, kind: &str, name: &str, spec: serde_json::Value| {
        let metadata = json!({"name": name, "namespace": name});
        json!({"apiVersion": format!("{group}.example.com/v1"), "kind": kind, "metadata": metadata, "spec": spec})
    };
    let mut items = vec![serde_json::from_str(RULE).unwrap()];
    for name in NAMES {
        items.push(object("n", "Net", name, json!({})));
        items.push(object("c", "VM", name, json!({"net": name})));
        // A target that doesn't exist is named by the tenant, too.
        items.push(object("c", "VM", &format!("{name}2"), json!({"net": format!("{name}3")})));
    }
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = write(folder.path(), "all.json", &list.to_string());
    let page = depguard(&["graph", "-o", "html", "-f", file.to_str().unwrap()]).await.well();
    assert!(!page.contains("onerror=") || page.contains("\\u003cimg"), "the name is escaped in the file");
    let file = write(folder.path(), "page.html", &page);

    let Some(mut browser) = Chromium::start() else { return };
    browser.open_file(&file);
    browser.until("document.querySelectorAll('#drawing .canvas a').length === 2");
    let links = "[...JSON.parse(document.querySelector('#data').textContent).objects].length";
    assert_eq!(browser.evaluate(links), 32, "8 networks, 16 machines, 8 missing networks");
    // Each object's own page: the name is there as text, and no element came of it.
    for kind in ["vms.c.example.com", "nets.n.example.com"] {
        for name in NAMES {
            let parts = json!([kind, name, name]);
            browser.evaluate(&format!("location.hash = '#object/' + {parts}.map(encodeURIComponent).join('/')"));
            let name_shown: String = name.chars().map(|c| if is_unshown(c) { '\u{fffd}' } else { c }).collect();
            browser.until(&format!("document.querySelector('#panel h2').textContent === {}", json!(name_shown)));
            let foreign = "document.querySelectorAll('img, svg[onload], script:not([id]):not(:last-of-type)').length";
            assert_eq!(browser.evaluate(foreign), 0, "{name}");
            let commands =
                browser.evaluate("[...document.querySelectorAll('#panel code')].map((code) => code.textContent)");
            assert_eq!(commands, json!([]), "no command names {name}");
            assert!(browser.text("#panel").contains("the name has characters that a shell could misread"), "{name}");
        }
    }
    assert_ne!(browser.evaluate("document.title"), "owned");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
    assert!(browser.requests.iter().all(|url| url.starts_with("file:///")), "{:?}", browser.requests);

    // And if a name did become a script, the page's policy would not let it run.
    browser.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: \"document.title='owned'\"}))");
    assert_ne!(browser.evaluate("document.title"), "owned");
    assert!(browser.errors.iter().any(|error| error.contains("Content Security Policy")), "{:?}", browser.errors);
    // Nor could it load anything, and so tell somebody. A page without the policy can.
    let loads = [
        "fetch('data:,x').then(() => true, () => false)",
        "new Promise((done) => Object.assign(new Image(), {onload: () => done(true), onerror: () => done(false), \
         src: 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='}))",
    ];
    assert_eq!(loads.map(|load| browser.evaluate(load)), [json!(false), json!(false)]);
    browser.errors.clear();
    browser.open("data:text/html,<title>free</title>");
    assert_eq!(loads.map(|load| browser.evaluate(load)), [json!(true), json!(true)]);
}

fn is_unshown(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
