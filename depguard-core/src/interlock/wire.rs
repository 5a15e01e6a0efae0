//! Wire form of a register: a ReferenceRegister of depguard's own API group.
//!
//! A register that can't be read in every part is unknown, so whoever asks is refused: a part that this version doesn't
//! know may be a mark.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mark::{Flag, Intent, Marks, Nonce, SharedMark, Side, Wait};
#[cfg(feature = "schemars")]
use super::object_key::MAX_OPAQUE;
use super::object_key::{Dependent, ObjectKey, RegisterName, Revision};
use super::register::Register;
#[cfg(feature = "schemars")]
use super::{MAX_FLAGS, MAX_INTENTS};
use crate::model::api;
use crate::model::names::{Group, GroupResource, LogicalCluster, NameError, Namespace, Resource};
use crate::protocol::deletion_target::is_stored_name;

/// The resource of registers.
pub const PLURAL: &str = "referenceregisters";
/// The kind of registers.
pub const KIND: &str = "ReferenceRegister";
/// Maximum number of targets in a register's schema: more than a register of the maximum size has.
#[cfg(feature = "schemars")]
const MAX_TARGETS: usize = 4096;
/// Pattern of a nonce.
#[cfg(feature = "schemars")]
const NONCE: &str = "^[0-9a-f]{32}$";

/// The reason why an object can't be used as a register.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a ReferenceRegister that this version knows: {0}")]
pub struct RegisterError(String);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRegister {
    api_version: String,
    kind: String,
    metadata: WireMetadata,
    spec: WireSpec,
}

/// The metadata that depguard reads. An API server adds more.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// The marks about the targets of one bucket.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireSpec {
    /// The UID of the object for which the controller opened the register. With another UID the register is closed, and
    /// records nothing.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_OPAQUE)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_for: Option<String>,
    /// The targets that have a mark.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_TARGETS), extend("x-kubernetes-list-type" = "atomic")))]
    #[serde(default)]
    targets: Vec<WireMarks>,
}

/// The marks about one target.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireMarks {
    /// The target.
    target: WireKey,
    /// The deletions of the target that may be under way.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_FLAGS), extend("x-kubernetes-list-type" = "atomic")))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flags: Vec<WireFlag>,
    /// The dependents that may be about to be stored with a reference to the target.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_INTENTS), extend("x-kubernetes-list-type" = "atomic")))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    intents: Vec<WireIntent>,
    /// The mark for all dependents beyond those that are named one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared: Option<WireShared>,
    /// The side that waits for the end of the other side's marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait: Option<WireWait>,
}

/// The identity of an object.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireKey {
    /// The logical cluster, in kcp.
    #[cfg_attr(feature = "schemars", schemars(length(max = LogicalCluster::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The API group. Left out: the core group.
    #[cfg_attr(feature = "schemars", schemars(length(max = Group::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    /// The resource.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = Resource::MAX_LEN)))]
    resource: String,
    /// The namespace. Left out: an object without a namespace.
    #[cfg_attr(feature = "schemars", schemars(length(max = Namespace::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The name.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 253)))]
    name: String,
}

/// A deletion that may be under way.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireFlag {
    /// The random number of the evaluation that made the mark.
    #[cfg_attr(feature = "schemars", schemars(extend("pattern" = NONCE)))]
    nonce: String,
    /// The UID of the reviewed target.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = MAX_OPAQUE)))]
    uid: String,
    /// The resourceVersion of the reviewed target.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = MAX_OPAQUE)))]
    resource_version: String,
}

/// A dependent that may be about to be stored.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireIntent {
    /// The random number of the evaluation that made the mark.
    #[cfg_attr(feature = "schemars", schemars(extend("pattern" = NONCE)))]
    nonce: String,
    /// The dependent.
    dependent: WireKey,
    /// The dependent's UID.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = MAX_OPAQUE)))]
    uid: String,
    /// The `resourceVersion` of the replaced object. Left out: a creation.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = MAX_OPAQUE)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
}

/// The mark for dependents that are not named one by one.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireShared {
    /// The random number of the evaluation that opened the mark.
    #[cfg_attr(feature = "schemars", schemars(extend("pattern" = NONCE)))]
    epoch: String,
    /// True if further dependents may rely on the mark.
    open: bool,
}

/// The wait of one side.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireWait {
    /// The side that waits.
    side: WireSide,
    /// The random number of the evaluation that asked for the wait last.
    #[cfg_attr(feature = "schemars", schemars(extend("pattern" = NONCE)))]
    epoch: String,
    /// True if the other side records no new mark meanwhile.
    due: bool,
    /// True if the side has asked for the wait a short time ago.
    fresh: bool,
}

/// A side of the interlock.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
enum WireSide {
    Deletion,
    Reference,
}

/// Returns the schema of a ReferenceRegister's spec.
#[cfg(feature = "schemars")]
pub fn register_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    <WireSpec as schemars::JsonSchema>::json_schema(generator)
}

impl RegisterName {
    /// Returns the path of the register at an API server.
    pub fn path(&self) -> String {
        format!("{}/{self}", Self::collection())
    }

    /// Returns the path of all registers at an API server.
    pub fn collection() -> String {
        format!("/apis/{}/{}/{PLURAL}", api::GROUP, api::VERSION)
    }
}

impl Register {
    /// Reads a register as an API server returns it.
    pub fn parse(bytes: &[u8]) -> Result<Self, RegisterError> {
        let wire: WireRegister = serde_json::from_slice(bytes).map_err(|error| RegisterError(error.to_string()))?;
        let WireRegister { api_version, kind, metadata, spec: WireSpec { open_for, targets } } = wire;
        if api_version != api_version_of_registers() || kind != KIND {
            return Err(RegisterError(format!("it is a {kind} of {api_version}")));
        }
        let name = RegisterName::parse(&metadata.name)
            .ok_or_else(|| RegisterError(format!("`{}` is no register's name", metadata.name)))?;
        let stored = match (metadata.uid, metadata.resource_version) {
            (Some(uid), Some(version)) if !uid.is_empty() && !version.is_empty() => Some((uid, version)),
            (None, None) => None,
            _ => return Err(RegisterError("it has no UID or no resourceVersion".to_owned())),
        };
        let mut register = Self { name, stored, open_for, marks: BTreeMap::new() };
        for wire in targets {
            let target = wire.target.read()?;
            let marks = Marks {
                flags: by_nonce(wire.flags, WireFlag::read)?,
                intents: by_nonce(wire.intents, WireIntent::read)?,
                shared: wire.shared.map(WireShared::read).transpose()?,
                wait: wire.wait.map(WireWait::read).transpose()?,
            };
            if register.marks.insert(target, marks).is_some() {
                return Err(RegisterError("it names a target twice".to_owned()));
            }
        }
        Ok(register)
    }

    /// Returns the object to store, with the version that was read.
    pub fn to_value(&self) -> Value {
        json!(self.to_wire())
    }

    /// Returns the text of the object to store. A hot target's register is large, and a tree of it costs much more.
    pub(super) fn to_text(&self) -> String {
        // Only a map whose keys are no strings has no JSON.
        serde_json::to_string(&self.to_wire()).unwrap_or_default()
    }

    fn to_wire(&self) -> WireRegister {
        let metadata = WireMetadata {
            name: self.name.to_string(),
            uid: self.uid().map(str::to_owned),
            resource_version: self.resource_version().map(str::to_owned),
        };
        let targets = self.marks.iter().map(|(target, marks)| WireMarks {
            target: WireKey::from_key(target),
            flags: marks.flags.iter().map(|(nonce, flag)| WireFlag::from_flag(*nonce, flag)).collect(),
            intents: marks.intents.iter().map(|(nonce, intent)| WireIntent::from_intent(*nonce, intent)).collect(),
            shared: marks.shared.map(|shared| WireShared { epoch: shared.epoch.to_string(), open: shared.is_open }),
            wait: marks.wait.map(WireWait::from_wait),
        });
        let spec = WireSpec { open_for: self.open_for.clone(), targets: targets.collect() };
        WireRegister { api_version: api_version_of_registers(), kind: KIND.to_owned(), metadata, spec }
    }
}

fn api_version_of_registers() -> String {
    format!("{}/{}", api::GROUP, api::VERSION)
}

fn by_nonce<W, M>(
    wire: Vec<W>,
    read: fn(W) -> Result<(Nonce, M), RegisterError>,
) -> Result<BTreeMap<Nonce, M>, RegisterError> {
    let mut marks = BTreeMap::new();
    for one in wire {
        let (nonce, mark) = read(one)?;
        if marks.insert(nonce, mark).is_some() {
            return Err(RegisterError("it names an evaluation twice".to_owned()));
        }
    }
    Ok(marks)
}

fn nonce(text: &str) -> Result<Nonce, RegisterError> {
    Nonce::parse(text).ok_or_else(|| RegisterError(format!("`{text}` is no nonce")))
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn malformed(error: NameError) -> RegisterError {
    RegisterError(format!("a name {error}"))
}

impl WireKey {
    fn from_key(key: &ObjectKey) -> Self {
        let ObjectKey { cluster, kind: GroupResource { group, resource }, namespace, name } = key;
        Self {
            cluster: cluster.as_ref().map(ToString::to_string),
            group: group.to_string(),
            resource: resource.to_string(),
            namespace: namespace.as_ref().map(ToString::to_string),
            name: name.clone(),
        }
    }

    fn read(self) -> Result<ObjectKey, RegisterError> {
        if self.name.is_empty() || !is_stored_name(&self.name) {
            return Err(RegisterError("an object's name is invalid".to_owned()));
        }
        Ok(ObjectKey {
            cluster: self.cluster.as_deref().map(LogicalCluster::parse).transpose().map_err(malformed)?,
            kind: GroupResource {
                group: Group::parse(&self.group).map_err(malformed)?,
                resource: Resource::parse(&self.resource).map_err(malformed)?,
            },
            namespace: self.namespace.as_deref().map(Namespace::parse).transpose().map_err(malformed)?,
            name: self.name,
        })
    }
}

impl WireFlag {
    fn from_flag(nonce: Nonce, flag: &Flag) -> Self {
        let Flag { revision } = flag;
        let (uid, resource_version) = (revision.uid().to_owned(), revision.resource_version().to_owned());
        Self { nonce: nonce.to_string(), uid, resource_version }
    }

    fn read(self) -> Result<(Nonce, Flag), RegisterError> {
        let revision = Revision::parse(&self.uid, &self.resource_version).map_err(malformed)?;
        Ok((nonce(&self.nonce)?, Flag { revision }))
    }
}

impl WireIntent {
    fn from_intent(nonce: Nonce, intent: &Intent) -> Self {
        let Intent { dependent } = intent;
        Self {
            nonce: nonce.to_string(),
            dependent: WireKey::from_key(dependent.key()),
            uid: dependent.uid().to_owned(),
            replaced: dependent.replaced().map(str::to_owned),
        }
    }

    fn read(self) -> Result<(Nonce, Intent), RegisterError> {
        let key = self.dependent.read()?;
        let dependent = match self.replaced {
            None => Dependent::created(key, &self.uid).map_err(malformed)?,
            Some(version) => Dependent::updated(key, Revision::parse(&self.uid, &version).map_err(malformed)?),
        };
        Ok((nonce(&self.nonce)?, Intent { dependent }))
    }
}

impl WireShared {
    fn read(self) -> Result<SharedMark, RegisterError> {
        Ok(SharedMark { epoch: nonce(&self.epoch)?, is_open: self.open })
    }
}

impl WireWait {
    fn from_wait(Wait { side, epoch, is_due, is_fresh }: Wait) -> Self {
        let side = match side {
            Side::Deletion => WireSide::Deletion,
            Side::Reference => WireSide::Reference,
        };
        Self { side, epoch: epoch.to_string(), due: is_due, fresh: is_fresh }
    }

    fn read(self) -> Result<Wait, RegisterError> {
        let side = match self.side {
            WireSide::Deletion => Side::Deletion,
            WireSide::Reference => Side::Reference,
        };
        Ok(Wait { side, epoch: nonce(&self.epoch)?, is_due: self.due, is_fresh: self.fresh })
    }
}
