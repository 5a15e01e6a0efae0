//! Edits of registers in worlds without a guard, which the code itself can't make.

use depguard_core::interlock::{Register, RegisterName};
use serde_json::{Value, json};

/// Returns a register of that name in which the controller has recorded nothing yet: open or closed, and with that many
/// intents of creations that are over.
pub(crate) fn register(name: RegisterName, uid: &str, version: &str, is_open: bool, targets: &Value) -> Register {
    let mut spec = json!({"targets": targets});
    if is_open {
        spec["openFor"] = uid.into();
    }
    read(&json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ReferenceRegister",
        "metadata": {"name": name.to_string(), "uid": uid, "resourceVersion": version}, "spec": spec,
    }))
}

/// Returns the register with another version, whatever was read.
pub(crate) fn restamped(register: &Register, version: &str) -> Register {
    let uid = register.uid().unwrap_or_default().to_owned();
    register.clone().stored_as(&uid, version)
}

/// Returns a register with the marks of all these.
pub(crate) fn union(registers: &[&Register]) -> Option<Register> {
    let (first, rest) = registers.split_first()?;
    let mut all = first.to_value();
    for other in rest {
        for target in list(&other.to_value()["spec"]["targets"]) {
            let targets = all["spec"]["targets"].as_array_mut()?;
            match targets.iter_mut().find(|known| known["target"] == target["target"]) {
                None => targets.push(target),
                Some(known) => {
                    for marks in ["flags", "intents"] {
                        let mut union = list(&known[marks]);
                        union.extend(
                            list(&target[marks]).into_iter().filter(|mark| !list(&known[marks]).contains(mark)),
                        );
                        known[marks] = union.into();
                    }
                }
            }
        }
    }
    Some(read(&all))
}

/// Returns the register without its closed shared marks.
pub(crate) fn without_closed_marks(register: &Register) -> Register {
    let mut value = register.to_value();
    each_target(&mut value, |target| {
        if target["shared"]["open"] == false {
            target.as_object_mut().expect("an object").remove("shared");
        }
    });
    read(&value)
}

/// Returns the register without the intents of these updates.
pub(crate) fn without_updates(register: &Register, is_over: impl Fn(&str) -> bool) -> Register {
    let mut value = register.to_value();
    each_target(&mut value, |target| {
        let mut intents = list(&target["intents"]);
        intents.retain(|intent| intent["replaced"].is_null() || !is_over(intent["uid"].as_str().unwrap_or_default()));
        target["intents"] = intents.into();
    });
    read(&value)
}

fn each_target(register: &mut Value, edit: impl Fn(&mut Value)) {
    let Some(targets) = register["spec"]["targets"].as_array_mut() else { return };
    targets.iter_mut().for_each(edit);
    let is_empty = |target: &Value| {
        list(&target["flags"]).is_empty() && list(&target["intents"]).is_empty() && target["shared"].is_null()
    };
    targets.retain(|target| !is_empty(target));
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn read(value: &Value) -> Register {
    Register::parse(value.to_string().as_bytes()).expect("a register, as the core has printed it")
}
