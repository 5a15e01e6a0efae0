//! Rules about Kubernetes' own kinds.

pub(super) mod cluster;
pub(super) mod since_1_34;
pub(super) mod workloads;

use super::notation::Kind;

const POD: Kind = Kind::new("", "v1", "Pod", "pods");
const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
const STATEFUL_SET: Kind = Kind::new("apps", "v1", "StatefulSet", "statefulsets");
const DAEMON_SET: Kind = Kind::new("apps", "v1", "DaemonSet", "daemonsets");
const JOB: Kind = Kind::new("batch", "v1", "Job", "jobs");
const CRON_JOB: Kind = Kind::new("batch", "v1", "CronJob", "cronjobs");
const PERSISTENT_VOLUME: Kind = Kind::new("", "v1", "PersistentVolume", "persistentvolumes");
const PERSISTENT_VOLUME_CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "v1", "StorageClass", "storageclasses");

/// Path of the Pods' specification in all kinds that have a template, but CronJob.
const TEMPLATE: &str = ".spec.template.spec";
/// Path of the Pods' specification in a CronJob.
const CRON_JOB_TEMPLATE: &str = ".spec.jobTemplate.spec.template.spec";
/// Path of the specification of a StatefulSet's claims.
const CLAIM_TEMPLATES: &str = ".spec.volumeClaimTemplates[*].spec";
/// Phases of a Pod that has not ended. A Pod that has ended uses nothing any more.
const NOT_ENDED: &[&str] = &["Pending", "Running", "Unknown"];

/// Returns the path of the specification of the claims that are made for Pods with ephemeral volumes.
fn ephemeral_claim(spec: &str) -> String {
    format!("{spec}.volumes[*].ephemeral.volumeClaimTemplate.spec")
}
