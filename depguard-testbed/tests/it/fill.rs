//! Tests of objects that the process fills in, and of long lists.

use depguard_testbed::Place;
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::plain::{GADGETS, gadget};

const PLACE: Place<'static> = Place::new("example.com", "v1", "gadgets").namespace("default");

fn gadgets(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|n| gadget(&format!("g{n:06}"), &format!("owner-{}", n / 10)))
}

#[tokio::test]
async fn what_is_filled_in_is_served_like_anything_else() {
    let bed = Bed::with_gadgets().await;
    assert_eq!(bed.testbed.fill(&PLACE, gadgets(25)).unwrap(), 25);
    let found = bed.admin.get(&format!("{GADGETS}/g000007")).await.ok();
    assert_eq!((&found["kind"], &found["spec"]["owner"]), (&json!("Gadget"), &json!("owner-0")));
    assert!(found["metadata"]["uid"].is_string() && found["metadata"]["resourceVersion"].is_string(), "{found}");
    let older = bed.admin.get("/apis/example.com/v1beta1/namespaces/default/gadgets?limit=1").await.ok();
    assert_eq!(older["items"][0]["apiVersion"], "example.com/v1beta1");
    assert_eq!(older["items"][0]["spec"], json!({"owner": "owner-0"}));

    bed.admin.merge(&format!("{GADGETS}/g000007"), &json!({"spec": {"owner": "me"}})).await.ok();
    bed.admin.delete(&format!("{GADGETS}/g000008")).await.ok();
    bed.admin.create(GADGETS, &gadget("new", "owner-0")).await.ok();
    let mut names: Vec<String> = (0..7).map(|n| format!("g{n:06}")).collect();
    names.extend(["g000009".to_owned(), "new".to_owned()]);
    let selected = bed.admin.get(&format!("{GADGETS}?fieldSelector=spec.owner%3Downer-0")).await;
    assert_eq!(selected.names(), names);
    assert_eq!(bed.admin.get(&format!("{GADGETS}?fieldSelector=spec.owner%3Dme")).await.names(), ["g000007"]);
    assert_eq!(bed.admin.get(GADGETS).await.names().len(), 25);
    assert!(bed.testbed.fill(&Place::new("example.com", "v1", "gizmos"), []).is_err());
    let nameless = bed.testbed.fill(&PLACE, [json!({"spec": {}})]).unwrap_err();
    assert_eq!(nameless.to_string(), "objects without `metadata.name` were left out: 1");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_selecting_list_goes_on_where_it_stopped() {
    let bed = Bed::with_gadgets().await;
    bed.testbed.fill(&PLACE, gadgets(25)).unwrap();
    let path = format!("{GADGETS}?fieldSelector=spec.owner%3Downer-1&limit=6");
    let first = bed.admin.get(&path).await;
    assert_eq!(first.names().len(), 6);
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    // The next page shows the object all the same, at the first page's revision.
    bed.admin.delete(&format!("{GADGETS}/g000018")).await.ok();
    let rest = bed.admin.get(&format!("{path}&continue={token}")).await;
    assert_eq!(rest.names(), ["g000016", "g000017", "g000018", "g000019"]);
    assert_eq!(rest.body["metadata"]["continue"], "");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn pages_of_many_objects_say_what_remains_and_are_counted() {
    const COUNT: usize = 20_000;
    let bed = Bed::with_gadgets().await;
    bed.testbed.fill(&PLACE, gadgets(COUNT)).unwrap();
    let before = bed.testbed.lists("example.com", "gadgets");
    let (mut token, mut seen, mut bytes) = (String::new(), 0, 0);
    loop {
        let page = bed.admin.get(&format!("{GADGETS}?limit=500&continue={token}")).await;
        bytes += page.text.len() as u64;
        seen += page.names().len();
        let metadata = &page.body["metadata"];
        token = metadata["continue"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
        assert_eq!(metadata["remainingItemCount"], COUNT - seen);
    }
    assert_eq!(seen, COUNT);
    let counted = bed.testbed.lists("example.com", "gadgets").since(&before);
    assert_eq!((counted.begun, counted.selecting, counted.pages, counted.bytes), (1, 0, 40, bytes));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_watch_from_before_a_fill_is_too_late() {
    let bed = Bed::with_gadgets().await;
    let list = bed.admin.get(GADGETS).await.ok();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = bed.admin.watch(&format!("{GADGETS}?watch=true&resourceVersion={revision}")).await;
    bed.testbed.fill(&PLACE, gadgets(3)).unwrap();
    let (kind, status) = watch.next_any().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    bed.testbed.stop().await;
}
