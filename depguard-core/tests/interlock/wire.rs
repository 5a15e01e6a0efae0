//! Wire form of registers.

use depguard_core::interlock::Register;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cast::*;

fn target(marks: &Value) -> Value {
    let mut target =
        json!({"target": {"group": "network.example.com", "resource": "vpcs", "namespace": "n", "name": "a"}});
    target.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
    json!([target])
}

fn flag(nonce: u32) -> Value {
    json!({"nonce": format!("{nonce:032x}"), "uid": "u", "resourceVersion": "1"})
}

fn intent() -> Value {
    let dependent = json!({"cluster": "root", "resource": "machines", "name": "m"});
    json!({"nonce": format!("{:032x}", 7), "dependent": dependent, "uid": "u", "replaced": "3"})
}

#[test]
fn a_register_is_read_as_it_is_printed() {
    let shared = json!({"epoch": format!("{:032x}", 9), "open": false});
    let whole = wire("r", "r", &target(&json!({"flags": [flag(1), flag(2)], "intents": [intent()], "shared": shared})));
    assert_eq!(parse(&whole).to_value(), whole);
    assert_eq!(marks(&parse(&whole)), 4);
}

#[test]
fn a_register_that_is_not_wholly_known_is_unknown() {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 14] = [
        ("an unknown kind of mark", |it| it["spec"]["targets"][0]["locks"] = json!([])),
        ("an unknown field of the register", |it| it["spec"]["epoch"] = json!(1)),
        ("an unknown field of a flag", |it| it["spec"]["targets"][0]["flags"][0]["until"] = json!("x")),
        ("a flag without a revision", |it| it["spec"]["targets"][0]["flags"][0] = json!({"nonce": flag(1)["nonce"]})),
        ("an empty revision", |it| it["spec"]["targets"][0]["flags"][0]["resourceVersion"] = json!("")),
        ("a nonce of another form", |it| it["spec"]["targets"][0]["flags"][0]["nonce"] = json!("1")),
        ("a nonce twice", |it| it["spec"]["targets"][0]["flags"] = json!([flag(1), flag(1)])),
        ("a target twice", |it| {
            let target = it["spec"]["targets"][0].clone();
            it["spec"]["targets"].as_array_mut().unwrap().push(target);
        }),
        ("a name that no object has", |it| it["spec"]["targets"][0]["target"]["name"] = json!("a/b")),
        ("another kind", |it| it["kind"] = json!("LockTable")),
        ("another version", |it| it["apiVersion"] = json!("dependencies.opendefense.cloud/v2")),
        ("another name", |it| it["metadata"]["name"] = json!("bucket-1-of-1")),
        ("no spec", |it| _ = it.as_object_mut().unwrap().remove("spec")),
        ("no version", |it| _ = it["metadata"].as_object_mut().unwrap().remove("resourceVersion")),
    ];
    for (what, edit) in edits {
        let mut value = wire("r", "r", &target(&json!({"flags": [flag(1)]})));
        assert!(Register::parse(value.to_string().as_bytes()).is_ok());
        edit(&mut value);
        assert!(Register::parse(value.to_string().as_bytes()).is_err(), "{what}");
    }
}

#[test]
fn fields_that_an_api_server_adds_to_the_metadata_are_no_marks() {
    let mut value = wire("r", "r", &json!([]));
    value["metadata"]["managedFields"] = json!([{"manager": "depguard"}]);
    value["metadata"]["generation"] = json!(3);
    assert!(parse(&value).is_open());
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Register::parse(&bytes);
    }
}
