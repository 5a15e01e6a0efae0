//! Lists as an API server writes them. No two objects are alike, so that the processor cannot predict branches from
//! earlier objects.

use serde_json::{Value, json};

/// Returns the last page of a list of custom resources, all in that VPC.
pub(crate) fn page(objects: usize, size: Size, vpc: &str) -> Vec<u8> {
    let mut dice = Dice(7);
    let items: Vec<_> = (0..objects).map(|n| object(&mut dice, n, size, vpc)).collect();
    let list = json!({
        "apiVersion": "compute.example.com/v1", "kind": "VirtualMachineList", "items": items,
        "metadata": {"continue": "", "resourceVersion": "12345"},
    });
    let mut bytes = list.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// About 2 kB.
    Small,
    /// About 20 kB.
    Large,
}

impl Size {
    pub(crate) const ALL: [Self; 2] = [Self::Small, Self::Large];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "2 kB",
            Self::Large => "20 kB",
        }
    }

    /// Returns the approximate number of an object's parts.
    fn parts(self) -> u64 {
        match self {
            Self::Small => 1,
            Self::Large => 14,
        }
    }
}

/// Returns an object of the page.
pub(crate) fn object(dice: &mut Dice, n: usize, size: Size, vpc: &str) -> Value {
    let parts = size.parts();
    let disks: Vec<_> = (0..parts + dice.roll(3))
        .map(|n| json!({"name": dice.word("disk"), "sizeGiB": 10 + dice.roll(500), "class": dice.word("fast"), "boot": n == 0}))
        .collect();
    let conditions: Vec<_> = (0..1 + parts + dice.roll(2))
        .map(|_| {
            json!({
                "type": dice.word("Ready"), "status": if dice.roll(4) == 0 { "False" } else { "True" }, "reason": "AsExpected",
                "message": format!("it took {} ms, \"as expected\"", dice.roll(100_000)), "lastTransitionTime": dice.time(),
            })
        })
        .collect();
    let spec = json!({
        "vpcRef": {"name": vpc}, "image": dice.word("debian"), "cpus": 1 + dice.roll(16), "memoryGiB": dice.roll(256), "disks": disks,
    });
    // `kubectl apply` leaves this annotation behind.
    let applied = json!({"apiVersion": "compute.example.com/v1", "kind": "VirtualMachine", "spec": {"image": spec["image"], "disks": spec["disks"]}});
    let annotations = json!({"kcp.io/cluster": "2x5vq1g4tqm0a3oy", "kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    let labels = json!({"app": dice.word("web"), "tier": dice.word("prod")});
    let mut managed: Vec<_> = (0..parts).map(|_| managed_fields(dice)).collect();
    managed.push(managed_fields(dice));
    let addresses: Vec<_> =
        (0..parts).map(|_| format!("10.{}.{}.{}", dice.roll(256), dice.roll(256), dice.roll(256))).collect();
    json!({
        "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine",
        "metadata": {
            "name": format!("m{n:04}"), "namespace": "default", "uid": dice.uid(), "resourceVersion": (10_000 + dice.roll(90_000)).to_string(),
            "generation": 1 + dice.roll(9), "creationTimestamp": dice.time(), "labels": labels, "annotations": annotations, "managedFields": managed,
        },
        "spec": spec, "status": {"phase": "Running", "addresses": addresses, "conditions": conditions},
    })
}

fn managed_fields(dice: &mut Dice) -> Value {
    let fields: serde_json::Map<_, _> =
        (0..2 + dice.roll(5)).map(|_| (format!("f:{}", dice.word("field")), json!({}))).collect();
    json!({
        "manager": dice.word("kubectl"), "operation": "Apply", "apiVersion": "compute.example.com/v1", "time": dice.time(), "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}, "f:spec": fields},
    })
}

/// Dice with the same throws in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Returns a word of random length with this beginning.
    fn word(&mut self, start: &str) -> String {
        let more = self.roll(12);
        start.chars().chain((0..more).map(|_| char::from(b'a' + self.roll(26) as u8))).collect()
    }

    fn time(&mut self) -> String {
        format!("2026-01-{:02}T{:02}:{:02}:{:02}Z", 1 + self.roll(28), self.roll(24), self.roll(60), self.roll(60))
    }

    fn uid(&mut self) -> String {
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            self.roll(1 << 32),
            self.roll(1 << 16),
            self.roll(1 << 12),
            self.roll(1 << 12),
            self.roll(1 << 48)
        )
    }
}
