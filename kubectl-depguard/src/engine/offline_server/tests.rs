use depguard_core::Group;
use depguard_core::model::Resource;

use super::*;

fn vms() -> GroupResource {
    GroupResource { group: Group::parse("g.example.com").unwrap(), resource: Resource::parse("vms").unwrap() }
}

fn stored(object: &Value) -> StoredObject {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
    let (name, namespace) = (text("name"), text("namespace"));
    StoredObject { name, namespace, text: ObjectText::new(&Arc::new(object.clone())) }
}

fn answers(fields: &[&str], objects: usize) -> OfflineServer {
    let mut answers = OfflineServer::default();
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    let versions = [(Version::parse("v1").unwrap(), fields)].into();
    answers.serve(vms(), Served { versions, namespaced: true, ..Served::default() });
    for index in 0..objects {
        let namespace = if index % 2 == 0 { "even" } else { "odd" };
        let object = json!({
            "metadata": {"name": format!("m{index}"), "namespace": namespace}, "spec": {"vpc": format!("a,{}", index % 3)},
        });
        answers.insert(vms(), stored(&object));
    }
    answers
}

fn get(answers: &OfflineServer, path: &str, accept: Accept) -> (u16, Value) {
    let reply = answers.get(path, accept, None);
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn a_list_comes_page_by_page_and_each_object_once() {
    let answers = answers(&[], 7);
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (status, page) = get(&answers, &format!("/apis/g.example.com/v1/vms?limit=3{token}"), Accept::Json);
        assert_eq!((status, &page["metadata"]["resourceVersion"]), (200, &json!("1")));
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = format!("&continue={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..7).map(|index| format!("m{index}")).collect::<Vec<_>>());
    let (_, page) = get(&answers, "/apis/g.example.com/v1/namespaces/odd/vms?limit=500", Accept::Metadata);
    assert_eq!(names(&page), ["m1", "m3", "m5"]);
    assert_eq!(page["items"][0].get("spec"), None);
}

#[test]
fn a_field_is_selected_by_only_where_the_schema_says_so() {
    let query = "?fieldSelector=spec.vpc%3Da%5C%2C1&limit=500";
    let (_, page) = get(&answers(&["spec.vpc"], 5), &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
    assert_eq!(names(&page), ["m1", "m4"]);
    let refused = get(&answers(&[], 5), &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
    assert_eq!((refused.0, &refused.1["message"]), (400, &json!("field label not supported: spec.vpc")));
    // What is removed after a selection shifts no field to another object.
    let mut fewer = answers(&["spec.vpc"], 5);
    get(&fewer, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
    let first = get(&fewer, "/apis/g.example.com/v1/namespaces/odd/vms/m1", Accept::Json).1;
    fewer.remove(&vms(), &Arc::new(first));
    let (_, page) = get(&fewer, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json);
    assert_eq!(names(&page), ["m4"]);
    let mut lists = answers(&["spec.vpc"], 1);
    lists.insert(vms(), stored(&json!({"metadata": {"name": "l"}, "spec": {"vpc": ["a"]}})));
    assert_eq!(get(&lists, &format!("/apis/g.example.com/v1/vms{query}"), Accept::Json).0, 400);
}

#[test]
fn what_is_not_there_is_told_as_a_server_tells_it() {
    let answers = answers(&[], 1);
    for (path, status) in [
        ("/apis/g.example.com/v1/namespaces/even/vms/m0", 200),
        ("/apis/g.example.com/v1/namespaces/odd/vms/m0", 404),
        ("/apis/g.example.com/v2/vms?limit=1", 404),
        ("/apis/g.example.com/v1/disks?limit=1", 404),
        ("/apis/g.example.com", 200),
        ("/apis/g.example.com/v1", 200),
        ("/apis/other.example.com", 404),
        ("/api", 200),
        ("/apis/g.example.com/v1/vms/m0", 404),
        ("/api/v1/namespaces/even", 200),
        ("/api/v1/namespaces/unheard-of", 404),
        ("/apis/g.example.com/v1/vms?limit=x", 400),
        ("/elsewhere", 404),
        ("", 404),
    ] {
        assert_eq!(get(&answers, path, Accept::Json).0, status, "{path}");
    }
    assert_eq!(get(&answers, "/apis/g.example.com/v1/vms?limit=1", Accept::Table).0, 406);
}

/// Readers tell by the details of a 404 if the object is missing, or the kind.
#[test]
fn a_missing_object_is_told_from_a_missing_kind() {
    let mut answers = answers(&[], 1);
    let zones = GroupResource { resource: Resource::parse("zones").unwrap(), ..vms() };
    let versions = [(Version::parse("v1").unwrap(), BTreeSet::new())].into();
    answers.serve(zones, Served { versions, namespaced: false, ..Served::default() });
    let details = |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "name": name});
    for (path, expected) in [
        ("/apis/g.example.com/v1/namespaces/even/vms/m9", details("g.example.com", "vms", "m9")),
        ("/apis/g.example.com/v1/zones/z", details("g.example.com", "zones", "z")),
        ("/api/v1/namespaces/unheard-of", details("", "namespaces", "unheard-of")),
        ("/apis/g.example.com/v1/namespaces/even/zones/z", Value::Null),
        ("/apis/g.example.com/v1/vms/m9", Value::Null),
        ("/apis/g.example.com/v2/namespaces/even/vms/m9", Value::Null),
        ("/apis/g.example.com/v1/namespaces/even/disks/m9", Value::Null),
    ] {
        let (status, body) = get(&answers, path, Accept::ObjectMetadata);
        assert_eq!((status, &body["details"]), (404, &expected), "{path}");
    }
}

#[test]
fn the_object_that_is_deleted_is_not_among_its_dependents() {
    let mut answers = answers(&[], 2);
    let deleted = Arc::new(json!({"metadata": {"name": "it", "namespace": "odd"}}));
    answers.insert(vms(), stored(&deleted));
    let reply = answers.get("/apis/g.example.com/v1/vms?limit=9", Accept::Json, Some(&deleted));
    assert_eq!(names(&serde_json::from_slice(&reply.body).unwrap()), ["m0", "m1"]);
}
