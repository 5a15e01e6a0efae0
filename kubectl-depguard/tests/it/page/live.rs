//! The data of a page, as API servers give it.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::references::scene::Scene;

#[tokio::test]
async fn a_page_has_all_namespaces_of_a_cluster() {
    has_all_namespaces(&Scene::kubernetes().await).await;
}

#[tokio::test]
async fn a_page_has_all_namespaces_of_a_workspace() {
    has_all_namespaces(&Scene::kcp().await).await;
}

async fn has_all_namespaces(scene: &Scene) {
    scene.vpc("red", "a").await;
    scene.vm("red", "m1", &["a"]).await;
    scene.vm("blue", "m2", &["red/a", "b"]).await;
    let page = scene.run(&["graph", "-o", "html"]).await;
    assert_eq!(page.status, ExitStatus::Well, "{}", page.err);
    let data = data(&page.out);
    let mut names: Vec<_> = data["objects"].as_array().unwrap().iter().map(|object| object[2].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["a", "b", "m1", "m2"], "a target that doesn't exist is one of them");
    assert_eq!(data["references"].as_array().unwrap().len(), 3, "{data}");
    assert_eq!(data["unread"], json!([]));
}

#[tokio::test]
async fn a_page_says_what_its_reader_must_not_read() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    scene.vm("red", "m1", &["a"]).await;
    scene.vm("blue", "m2", &["red/a"]).await;
    // The reader may list the machines of their own namespace only.
    scene.forbid("/v1/virtualmachines?");
    let page = scene.run(&["graph", "-o", "html", "-n", "red"]).await;
    assert_eq!(page.status, ExitStatus::Failure, "{}", page.err);
    assert!(page.err.contains("the page is incomplete"), "{}", page.err);
    let data = data(&page.out);
    let unread = data["unread"][0].as_str().unwrap();
    assert!(unread.contains("virtualmachines.compute.example.com in other namespaces"), "{unread}");
    assert!(page.out.contains("\"m1\"") && !page.out.contains("\"m2\""), "the reader's own machine is there");
}

fn data(page: &str) -> Value {
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(data.split("</script>").next().unwrap()).unwrap()
}
