//! Tests of the watch on which all others stand.

use std::pin::Pin;

use depguard_kcp::{Endpoint, Form, MetadataEvent, MetadataForm, WatchEvent};
use futures::{Stream, StreamExt};

use super::*;

const PATH: &str = "/apis/network.example.com/v1/vpcs";

/// Watch of a world's objects.
struct Followed {
    world: World,
    server: Scripted,
    events: Pin<Box<dyn Stream<Item = MetadataEvent>>>,
    _dir: TempDir,
}

impl Followed {
    async fn start() -> Self {
        let world = World::default();
        world.list(PATH, &[object("a")]);
        let answering = world.clone();
        let server = Scripted::start(move |asked| answering.answer(asked)).await;
        let (connection, dir) = connect(ControlPlane::Kubernetes, &server).await;
        let endpoint: Endpoint = connection.own_endpoint();
        let mut followed =
            Self { world, server, events: Box::pin(endpoint.follow(PATH.to_owned(), MetadataForm)), _dir: dir };
        followed.expect(&["Listing", "Listed a", "Complete"]).await;
        followed
    }

    async fn expect(&mut self, events: &[&str]) {
        for expected in events {
            let event = match self.events.next().await.unwrap() {
                MetadataEvent::Listing => "Listing".to_owned(),
                MetadataEvent::Listed(object) => format!("Listed {}", object.name),
                MetadataEvent::Complete => "Complete".to_owned(),
                MetadataEvent::Changed(object) => format!("Changed {}", object.name),
                MetadataEvent::Gone(object) => format!("Gone {}", object.name),
                MetadataEvent::Bookmark => "Bookmark".to_owned(),
                MetadataEvent::Failed(failure) => format!("Failed {failure}"),
            };
            assert_eq!(event, *expected);
        }
    }

    /// Sends an event, and waits until the watch shows it.
    async fn tell(&mut self, event: &str, name: &str, expected: &str) {
        let (world, object) = (self.world.clone(), object(name));
        // The watch is opened only when somebody waits for its events.
        let expected = [expected];
        tokio::join!(self.expect(&expected), world.tell(PATH, event, &object));
    }

    /// Returns the queries of all requests.
    fn asked(&self) -> Vec<String> {
        let query = |asked: &Asked| asked.target.split_once('?').unwrap().1.to_owned();
        self.server.asked().iter().map(query).collect()
    }
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "7"}})
}

#[tokio::test]
async fn a_silent_watch_is_begun_anew_with_a_list() {
    let mut followed = Followed::start().await;
    followed.tell("ADDED", "b", "Changed b").await;
    followed.world.list(PATH, &[object("c")]);
    pass(34).await;
    followed.tell("BOOKMARK", "", "Bookmark").await;
    pass(34).await;
    followed.tell("DELETED", "b", "Gone b").await;
    pass(36).await;
    followed.expect(&["Listing", "Listed c", "Complete"]).await;
}

#[tokio::test]
async fn an_old_watch_is_begun_anew_however_often_it_reports() {
    let mut followed = Followed::start().await;
    for _ in 0..9 {
        pass(30).await;
        followed.tell("BOOKMARK", "", "Bookmark").await;
    }
    assert_eq!(followed.asked().len(), 2, "one list and one watch: {:?}", followed.asked());
    pass(31).await;
    followed.expect(&["Listing", "Listed a", "Complete"]).await;
}

#[tokio::test]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let mut followed = Followed::start().await;
    followed.tell("ADDED", "b", "Changed b").await;
    pass(25).await;
    followed.world.0.lock().unwrap().watches.clear();
    followed.tell("MODIFIED", "b", "Changed b").await;
    let watch = "watch=true&timeoutSeconds=25&allowWatchBookmarks=true&resourceVersion=";
    assert_eq!(followed.asked(), ["limit=500".to_owned(), format!("{watch}1"), format!("{watch}7")]);
}

#[tokio::test]
async fn a_watch_that_fails_pauses_and_lists_anew() {
    let mut followed = Followed::start().await;
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let world = followed.world.clone();
    tokio::join!(
        followed.expect(&["Failed 410 Expired: too old", "Listing", "Listed a", "Complete"]),
        world.tell(PATH, "ERROR", &expired)
    );
    followed.tell("RENAMED", "b", "Failed the watch has an event of the unknown type \"RENAMED\"").await;
    followed.expect(&["Listing", "Listed a", "Complete"]).await;
}

/// Form that shows the name of an object, and if it is too large.
struct Named;

impl Form for Named {
    type Object = (String, bool);

    fn read(&self, json: &str) -> serde_json::Result<Self::Object> {
        MetadataForm.read(json).map(|metadata| (metadata.name, false))
    }

    fn read_too_large(&self, metadata: &str) -> serde_json::Result<Self::Object> {
        MetadataForm.read(metadata).map(|metadata| (metadata.name, true))
    }
}

#[tokio::test]
async fn an_object_that_is_too_large_is_listed_by_its_metadata() {
    let page = |name: &str, next: &str| {
        let list = json!({"metadata": {"resourceVersion": "7", "continue": next}, "items": [object(name)]});
        Answer::Json(200, list.to_string())
    };
    let server = Scripted::start(move |asked| match asked.target.split_once('?').unwrap().1 {
        _ if asked.header("accept").is_some_and(|accept| accept.contains("PartialObjectMetadataList")) => page("b", ""),
        "limit=1" => page("a", "t"),
        watch if watch.starts_with("watch=true") => Answer::Silence,
        _ => Answer::Big((8 << 20) + 1),
    })
    .await;
    let (connection, _dir) = connect(ControlPlane::Kubernetes, &server).await;
    let events = connection.own_endpoint().follow(PATH.to_owned(), Named).take(4).collect::<Vec<_>>().await;
    let is_read = |event: &WatchEvent<(String, bool)>, name: &str, is_too_large: bool| matches!(event, WatchEvent::Listed((read, large)) if read == name && *large == is_too_large);
    assert!(is_read(&events[1], "a", false) && is_read(&events[2], "b", true), "{events:?}");
    assert!(matches!(events[3], WatchEvent::Complete), "{events:?}");
}
