//! Rules about the references between Kubernetes' own kinds that Kubernetes has from 1.34 on: to ResourceClaims and the
//! devices that these claim, and to VolumeAttributesClasses. A separate pack, since on an older release the rules of the
//! other packs could not be enforced with these references in them.

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::packs::notation::{Dependency, Kind, out, rule};
use crate::packs::{LeftOut, RulePack};

use super::{
    CLAIM_TEMPLATES, CRON_JOB, CRON_JOB_TEMPLATE, DAEMON_SET, DEPLOYMENT, JOB, NOT_ENDED, PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, TEMPLATE, ephemeral_claim,
};

const DEVICE_CLASS: Kind = Kind::new("resource.k8s.io", "v1", "DeviceClass", "deviceclasses");
const RESOURCE_CLAIM: Kind = Kind::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims");
const RESOURCE_CLAIM_TEMPLATE: Kind =
    Kind::new("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
const VOLUME_ATTRIBUTES_CLASS: Kind =
    Kind::new("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses");

pub(in crate::packs) const PACK: RulePack = RulePack {
    name: "kubernetes-1.34",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the ResourceClaims that Pods and workloads use, the ResourceClaimTemplates that workloads need \
               for new Pods, the DeviceClasses of both, and the VolumeAttributesClasses of volumes and their claims",
    notes: &[
        "Apply the rules in the cluster. They need resource.k8s.io/v1 and VolumeAttributesClasses of storage.k8s.io/v1, \
         and so Kubernetes 1.34.",
        "A Pod that is being deleted still uses all that it names.",
        "A Pod that has ended uses nothing any more, but a Job that has ended counts until somebody deletes the Job: \
         set ttlSecondsAfterFinished.",
        "Begin with `onDelete: Warn` where tools delete both at once.",
        "Take `failurePolicy: Ignore` where these objects must go even while depguard can't be reached.",
    ],
    held_against: "the OpenAPI definitions of Kubernetes v1.36.3",
    rules,
    left_out: &LEFT_OUT,
};

fn rules() -> Vec<Value> {
    let used = claimed(".spec").when(".status.phase", NOT_ENDED);
    vec![
        rule("kubernetes-1.34-pods", POD, [used]),
        rule("kubernetes-1.34-deployments", DEPLOYMENT, template(TEMPLATE)),
        rule(
            "kubernetes-1.34-statefulsets",
            STATEFUL_SET,
            template(TEMPLATE).into_iter().chain([attributes(CLAIM_TEMPLATES)]),
        ),
        rule("kubernetes-1.34-daemonsets", DAEMON_SET, template(TEMPLATE)),
        rule("kubernetes-1.34-jobs", JOB, template(TEMPLATE)),
        rule("kubernetes-1.34-cronjobs", CRON_JOB, template(CRON_JOB_TEMPLATE)),
        rule("kubernetes-1.34-resourceclaims", RESOURCE_CLAIM, devices(".spec.devices")),
        rule("kubernetes-1.34-resourceclaimtemplates", RESOURCE_CLAIM_TEMPLATE, devices(".spec.spec.devices")),
        rule(
            "kubernetes-1.34-persistentvolumeclaims",
            PERSISTENT_VOLUME_CLAIM,
            [
                attributes(".spec"),
                VOLUME_ATTRIBUTES_CLASS.at(".status.currentVolumeAttributesClassName"),
                VOLUME_ATTRIBUTES_CLASS.at(".status.modifyVolumeStatus.targetVolumeAttributesClassName"),
            ],
        ),
        rule("kubernetes-1.34-persistentvolumes", PERSISTENT_VOLUME, [attributes(".spec")]),
    ]
}

/// Returns the references of a specification of which new Pods are made.
fn template(spec: &str) -> [Dependency; 3] {
    [
        claimed(spec),
        RESOURCE_CLAIM_TEMPLATE.at(format!("{spec}.resourceClaims[*].resourceClaimTemplateName")),
        attributes(&ephemeral_claim(spec)),
    ]
}

/// Returns the reference of a Pod's specification to the claims that it names.
fn claimed(spec: &str) -> Dependency {
    RESOURCE_CLAIM.at(format!("{spec}.resourceClaims[*].resourceClaimName"))
}

/// Returns the reference of the specification of a volume or of its claim.
fn attributes(spec: &str) -> Dependency {
    VOLUME_ATTRIBUTES_CLASS.at(format!("{spec}.volumeAttributesClassName"))
}

fn devices(devices: &str) -> [Dependency; 2] {
    [
        DEVICE_CLASS.at(format!("{devices}.requests[*].exactly.deviceClassName")),
        DEVICE_CLASS.at(format!("{devices}.requests[*].firstAvailable[*].deviceClassName")),
    ]
}

/// Fields that no rule follows. Those of Pods stand for the same fields of all templates.
const LEFT_OUT: [LeftOut; 12] = [
    out(
        "pods",
        ".spec.resourceClaims[*].resourceClaimTemplateName",
        "a Pod has its claim once it runs; templates have a rule",
    ),
    out("pods", ".spec.resourceClaims[*].name", "names the claim within the Pod"),
    out("volumeattributesclasses", ".driverName", "an upgrade of a driver deletes its CSIDriver and makes it anew"),
    out("resourceclaims", ".spec.devices.config[*].opaque.driver", "names a program on the node"),
    out("resourceclaims", ".spec.devices.requests[*].name", "names the request itself"),
    out("resourceclaims", ".spec.devices.requests[*].firstAvailable[*].name", "names the request itself"),
    out("resourceclaimtemplates", ".spec.spec.devices.config[*].opaque.driver", "names a program on the node"),
    out("resourceclaimtemplates", ".spec.spec.devices.requests[*].name", "names the request itself"),
    out("resourceclaimtemplates", ".spec.spec.devices.requests[*].firstAvailable[*].name", "names the request itself"),
    out("deviceclasses", ".spec.config[*].opaque.driver", "names a program on the node"),
    out("deviceclasses", ".spec.extendedResourceName", "names a resource"),
    out("resourceslices", ".spec", "the driver of the devices writes the object"),
];
