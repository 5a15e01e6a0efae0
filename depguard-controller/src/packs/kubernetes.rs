//! Rules about Kubernetes' own kinds.

pub(super) mod cluster;
pub(super) mod workloads;

use super::notation::Kind;

const PERSISTENT_VOLUME_CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "v1", "StorageClass", "storageclasses");
const VOLUME_ATTRIBUTES_CLASS: Kind =
    Kind::new("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses");
const RESOURCE_CLAIM: Kind = Kind::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims");
const RESOURCE_CLAIM_TEMPLATE: Kind =
    Kind::new("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
