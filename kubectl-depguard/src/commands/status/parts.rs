//! Processes of depguard, and the end of the webhook's certificate.

use std::collections::BTreeSet;

use depguard_kcp::Endpoint;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Report, handshake, unread};
use crate::cluster::resource_path::text;
use crate::commands::install::certificate::{ends, held};
use crate::io::age::span;
use crate::io::table::Table;

/// Default name of the Lease for the controllers' election.
pub(in crate::commands) const LEASE: &str = "depguard-controller";
const CONTROLLER: &str = "depguard-controller";
const PROCESSES: [&str; 2] = [CONTROLLER, "depguard-webhook"];
/// Webhook for the canary; its configuration names depguard's own namespace.
pub(super) const CANARY: &str = "canary.dependency-controller.dependencies.opendefense.cloud";

/// State of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) ready: u64,
    pub(super) desired: u64,
    pub(super) image: String,
}

/// Certificate that API servers see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Certificate {
    /// Name of the source: `secret/name`, or a host.
    pub(super) of: String,
    /// End of the validity, in seconds since 1970.
    #[serde(skip)]
    pub(super) ends: i64,
    pub(super) expires: String,
}

/// Returns depguard's own namespace, as the installed configurations name it.
pub(in crate::commands) fn namespace(configurations: &[Value]) -> Option<String> {
    let webhooks = configurations.iter().filter_map(|object| object.get("webhooks")?.as_array()).flatten();
    let canary = webhooks.into_iter().find(|webhook| text(webhook, "/name") == CANARY)?;
    let namespace = text(canary, "/namespaceSelector/matchLabels/kubernetes.io~1metadata.name");
    (!namespace.is_empty()).then(|| namespace.to_owned())
}

/// Reads the Deployments. If there is a webhook, returns the name of the Secret with its certificate. `configurations`:
/// the installed ones, which show whether API servers reach the webhook through a Service.
pub(super) async fn processes(
    cluster: &Endpoint,
    namespace: &str,
    configurations: &[Value],
    report: &mut Report,
) -> Option<String> {
    let mut secret = None;
    let webhooks = configurations.iter().filter_map(|object| object.get("webhooks")?.as_array()).flatten();
    let has_service = webhooks.into_iter().any(|webhook| webhook.pointer("/clientConfig/service").is_some());
    for name in PROCESSES {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        let found = match cluster.get_json(&path).await {
            Ok(found) => found,
            Err(why) if why.is_not_found() && has_service => {
                let why = format!("it is not in namespace {namespace}: name its namespace with -n");
                report.unread.push(super::StatusReadFailure {
                    what: format!("deployment {name}"),
                    why,
                    is_vital: true,
                });
                continue;
            }
            Err(why) if why.is_not_found() => continue,
            Err(why) => {
                let right = format!("get deployments.apps in namespace {namespace}");
                report.unread.push(unread(format!("deployment {name}"), &right, &why).vital());
                continue;
            }
        };
        report.installed = true;
        let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64);
        let ready = number("/status/readyReplicas").unwrap_or_default();
        let running = &mut report.running;
        *(if name == CONTROLLER { &mut running.controller } else { &mut running.webhook }) |= ready > 0;
        if ready == 0 {
            report.problems.push(format!("no pod of {name} is ready: see `kubectl -n {namespace} get pods`"));
        }
        report.processes.push(Process {
            name: name.to_owned(),
            ready,
            desired: number("/spec/replicas").unwrap_or(1),
            image: text(&found, "/spec/template/spec/containers/0/image").to_owned(),
        });
        let volumes = found.pointer("/spec/template/spec/volumes").and_then(Value::as_array);
        let tls = volumes.into_iter().flatten().find(|volume| text(volume, "/name") == "tls");
        secret = secret.or(tls.map(|volume| text(volume, "/secret/secretName").to_owned()));
    }
    secret
}

/// Checks that the elected controller still renews its Lease: the rules' conditions are as old as the last renewal.
/// Without a Lease there is no election, and nothing to report.
pub(super) async fn lease(cluster: &Endpoint, namespace: &str, report: &mut Report) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}");
    match cluster.get_json(&path).await {
        Ok(lease) => match stopped(&lease, Timestamp::now()) {
            Some(stopped) => report.problems.push(stopped),
            None => {
                report.running.controller = true;
                // A controller that runs has asked the webhook within the last minute.
                report.running.webhook |= report.rules.iter().any(|rule| rule.enforced);
            }
        },
        Err(why) if why.is_not_found() => {}
        Err(why) => {
            let right = format!("get leases.coordination.k8s.io in namespace {namespace}");
            report.unread.push(unread(format!("lease {LEASE}"), &right, &why).vital());
        }
    }
}

/// Returns the problem if no holder renews the Lease. The check allows clocks to differ by the duration of the Lease.
pub(in crate::commands) fn stopped(lease: &Value, now: Timestamp) -> Option<String> {
    let Ok(renewed) = text(lease, "/spec/renewTime").parse::<Timestamp>() else {
        return Some(format!("the Lease {LEASE} has no renewTime, so it is unknown whether a controller runs"));
    };
    let lasts = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or_default();
    let age = now.as_second().saturating_sub(renewed.as_second());
    let is_held = !text(lease, "/spec/holderIdentity").is_empty();
    (!is_held || age > lasts.saturating_mul(2))
        .then(|| format!("no controller has renewed its Lease for {}: the conditions are as old as that", span(age)))
}

/// Reads the certificate from its Secret.
pub(super) async fn certificate(cluster: &Endpoint, namespace: &str, secret: &str, report: &mut Report) {
    let what = format!("the certificate in secret {secret}");
    match cluster.get_json(&format!("/api/v1/namespaces/{namespace}/secrets/{secret}")).await {
        Ok(found) => match held(&found, "tls.crt").and_then(|chain| ends(&chain)) {
            Some(ends) => report.certify(Certificate::new(format!("secret/{secret}"), ends)),
            None => {
                let why = "it has no readable tls.crt".to_owned();
                report.unread.push(super::StatusReadFailure { what, why, is_vital: false });
            }
        },
        Err(why) => {
            let right = format!("get secrets in namespace {namespace}");
            report.unread.push(unread(what, &right, &why));
        }
    }
}

/// Reads the certificate shown at each URL in the installed configurations.
pub(super) async fn handshakes(configurations: &[Value], report: &mut Report) {
    let webhooks = configurations.iter().filter_map(|object| object.get("webhooks")?.as_array()).flatten();
    let urls = webhooks.map(|webhook| text(webhook, "/clientConfig/url"));
    let hosts: BTreeSet<_> = urls.filter_map(handshake::authority).collect();
    for host in hosts {
        match handshake::ends(&host).await {
            Ok(ends) => {
                report.running.webhook = true;
                report.certify(Certificate::new(host, ends));
            }
            Err(why) => {
                let what = format!("the certificate shown at {host}");
                report.unread.push(super::StatusReadFailure { what, why, is_vital: false });
            }
        }
    }
}

pub(super) fn tables(report: &Report, now: Timestamp) -> [Table; 2] {
    let mut processes = Table::new(["PROCESS", "READY", "IMAGE"]);
    for process in &report.processes {
        let ready = format!("{}/{}", process.ready, process.desired);
        processes.push([process.name.clone(), ready, process.image.clone()]);
    }
    let mut certificates = Table::new(["CERTIFICATE", "EXPIRES", "IN"]);
    for certificate in &report.certificates {
        let left = certificate.ends.saturating_sub(now.as_second());
        let left = if left <= 0 { "expired".to_owned() } else { span(left) };
        certificates.push([certificate.of.clone(), certificate.expires.clone(), left]);
    }
    [processes, certificates]
}

impl Report {
    /// Adds a certificate to the report. API servers reject an expired certificate, so that the webhook can't answer
    /// them.
    fn certify(&mut self, certificate: Certificate) {
        if certificate.ends <= Timestamp::now().as_second() {
            self.problems.push(format!("the certificate of {} has expired: renew it", certificate.of));
        }
        self.certificates.push(certificate);
    }
}

impl Certificate {
    fn new(of: String, ends: i64) -> Self {
        let expires = Timestamp::from_second(ends).map(|time| time.to_string()).unwrap_or_default();
        Self { of, ends, expires }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_that_nobody_renews_is_told() {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
        assert_eq!(stopped(&lease("a", "2026-01-01T00:09:50.000000Z"), now), None);
        assert!(stopped(&lease("a", "2026-01-01T00:00:00.000000Z"), now).unwrap().contains("for 10m"));
        assert!(stopped(&lease("", "2026-01-01T00:09:50.000000Z"), now).is_some());
    }
}
