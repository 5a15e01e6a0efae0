//! Tests of creations and updates: the targets of references that begin to count must be there.

mod bindings;
mod drawn;
mod ends;
mod reads;
mod requests;
mod unknown;

use depguard_core::api::OnMissing;
use serde_json::Value;

use crate::cast::*;
use crate::world::*;

const VPC_A: &str = "/apis/network.example.com/v1alpha1/namespaces/ns/vpcs/a";
const ANY_VPC_A: &str = "/apis/network.example.com/v1alpha1/vpcs/a";

/// Returns the world with this outcome of the first rule's dependency.
fn checking(world: &World, on_missing: OnMissing) -> World {
    ruled(world, "/spec/dependencies/0/onMissing", serde_json::to_value(on_missing).unwrap())
}

/// Returns a plain cluster in which VMs must not refer to missing VPCs.
fn denying() -> World {
    checking(&plain(), OnMissing::Deny)
}

/// Returns a kcp likewise.
fn denying_in_kcp() -> World {
    checking(&bound(), OnMissing::Deny)
}

/// Returns the review with one edit.
fn edited(mut review: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set(&mut review, pointer, value.into());
    review
}
