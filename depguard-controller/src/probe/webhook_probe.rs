//! Probe of one webhook of a configuration: asks it, as an API server would reach it, which rules it decides by.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use depguard_core::probe::{Loaded, LoadedRulesRequest};
use depguard_core::rule::RuleKey;
use depguard_kcp::{CallError, Caller};
use futures::future::join_all;
use http::Uri;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::model::condition::Finding;
use crate::probe::result::{
    CERTIFICATE_INVALID, Loaded as LoadedRules, NOT_ASKED, NOT_LOADED, WEBHOOK_UNKNOWN, WEBHOOK_UNREACHABLE,
};

/// Time limit of one call.
const CALL: Duration = Duration::from_secs(5);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 8 << 20;
/// Maximum number of replicas that are asked.
const MAX_REPLICAS: usize = 16;

/// Address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// URL to call.
    url: String,
    /// Name in the webhook's certificate, if it isn't the host of the URL.
    server_name: Option<String>,
    /// Certificates by which the webhook is verified, as PEM.
    roots: Option<Vec<u8>>,
    /// True for a service, whose name only the cluster's own name service may know.
    is_service: bool,
}

impl Address {
    /// Reads the address of a configuration's webhook. With `instead`, a `host:port`, the controller connects to that
    /// address, and not to the one in the configuration. `None` if the webhook can't be read.
    pub(crate) fn from_webhook(webhook: &Value, instead: Option<&str>) -> Option<Self> {
        let client = webhook.get("clientConfig")?;
        let roots = match client.get("caBundle") {
            Some(bundle) => Some(ByteString::deserialize(bundle).ok()?.0),
            None => None,
        };
        let (url, is_service) = match client.get("url").and_then(Value::as_str) {
            Some(url) => (url.to_owned(), false),
            None => {
                let service = client.get("service")?;
                let text = |field: &str| service.get(field).and_then(Value::as_str);
                let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
                let (host, port) = (format!("{}.{}.svc", text("name")?, text("namespace")?), port.unwrap_or(443));
                (format!("https://{host}:{port}{}", text("path").unwrap_or("/")), true)
            }
        };
        let Some(instead) = instead else { return Some(Self { url, server_name: None, roots, is_service }) };
        let uri: Uri = url.parse().ok()?;
        let server_name = uri.host()?.trim_matches(['[', ']']).to_owned();
        let url = format!("https://{instead}{}", uri.path());
        Some(Self { url, server_name: Some(server_name), roots, is_service: false })
    }

    /// Returns the same webhook at one of its IP addresses.
    fn at(&self, replica: SocketAddr) -> Self {
        let Ok(uri) = self.url.parse::<Uri>() else { return self.clone() };
        let host = uri.host().map(|host| host.trim_matches(['[', ']']).to_owned());
        let server_name = self.server_name.clone().or(host);
        Self { url: format!("https://{replica}{}", uri.path()), server_name, ..self.clone() }
    }

    /// Returns the IP addresses of the host, at most 16. `None` stands for an address that is not looked up: whoever
    /// connects to it finds out what is wrong.
    async fn replicas(&self) -> Result<Vec<Option<SocketAddr>>, Finding> {
        let uri: Option<Uri> = self.url.parse().ok();
        let Some((host, port)) = uri.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16().unwrap_or(443)))) else {
            return Ok(vec![None]);
        };
        let found = timeout(CALL, lookup_host((host.trim_matches(['[', ']']), port))).await;
        match found.map(|found| found.map(BTreeSet::from_iter)) {
            Ok(Ok(found)) if !found.is_empty() => Ok(found.into_iter().take(MAX_REPLICAS).map(Some).collect()),
            Ok(Err(_)) if self.is_service => Err(Finding::unknown(
                NOT_ASKED,
                format!(
                    "the controller can't resolve {host}, so it can't ask the webhook: run the controller in the cluster, \
                     or set --webhook-probe-address to an address that it reaches"
                ),
            )),
            Ok(_) | Err(_) => Ok(vec![None]),
        }
    }
}

/// Asks each replica of a webhook for the generations of these rules. A problem of one is returned in the form of a rule's
/// condition.
///
/// Replicas are known by the IP addresses of the webhook's name. A name may have addresses at which nobody listens, as
/// `localhost` often has, so an address that can't be reached counts only if no other one is.
///
/// `identity` is a folder with `tls.crt` and `tls.key`, for a webhook that asks for client certificates.
pub(crate) async fn ask(
    address: &Address,
    identity: Option<&Path>,
    rules: &[&RuleKey],
) -> Result<Vec<LoadedRules>, Finding> {
    let replicas = address.replicas().await?;
    let asked = replicas.iter().map(|replica| ask_replica(address, *replica, identity, rules));
    together(join_all(asked).await)
}

/// Returns the answers of all replicas that can be reached, or the problem of one.
fn together(replicas: Vec<Result<LoadedRules, Finding>>) -> Result<Vec<LoadedRules>, Finding> {
    let (mut answers, mut problem) = (Vec::new(), None);
    for answer in replicas {
        match answer {
            Ok(loaded) => answers.push(loaded),
            Err(why) if why.reason != WEBHOOK_UNREACHABLE => return Err(why),
            Err(why) => problem = Some(why),
        }
    }
    match problem.filter(|_| answers.is_empty()) {
        Some(problem) => Err(problem),
        None => Ok(answers),
    }
}

/// Asks the webhook over a new connection to `replica`; `None`: to its address as it is written.
async fn ask_replica(
    address: &Address,
    replica: Option<SocketAddr>,
    identity: Option<&Path>,
    rules: &[&RuleKey],
) -> Result<LoadedRules, Finding> {
    let called = replica.map_or_else(|| address.clone(), |replica| address.at(replica));
    let (roots, server_name) = (called.roots.as_deref(), called.server_name.as_deref());
    let caller = Caller::new(&with_timeout(&called.url), roots, server_name, identity)
        .and_then(|caller| caller.for_host_of(&address.url))
        .map_err(|why| problem(&address.url, &why))?;
    let mut loaded = LoadedRules::new();
    for rules in rules.chunks(LoadedRulesRequest::RULES_AT_ONCE) {
        let request = LoadedRulesRequest::new(uid(), rules.iter().copied());
        let answer =
            caller.post(request.to_review(), MAX_ANSWER, CALL).await.map_err(|why| problem(&address.url, &why))?;
        match request.read(&answer) {
            Ok(Loaded::Rules(rules)) => loaded.extend(rules),
            Ok(Loaded::NotLoaded(why)) => {
                return Err(Finding::no(
                    NOT_LOADED,
                    format!("the webhook has not loaded its rules, and refuses everything until then: {why}"),
                ));
            }
            Ok(Loaded::Silent) => {
                return Err(Finding::unknown(
                    WEBHOOK_UNKNOWN,
                    format!(
                        "the webhook at {} does not report its rules: it has an older version, or is not depguard's",
                        address.url
                    ),
                ));
            }
            Err(why) => {
                return Err(Finding::no(
                    WEBHOOK_UNKNOWN,
                    format!("the webhook at {} gave an answer that can't be read: {why}", address.url),
                ));
            }
        }
    }
    Ok(loaded)
}

fn problem(url: &str, why: &CallError) -> Finding {
    match why {
        CallError::Certificate(_) => Finding::no(
            CERTIFICATE_INVALID,
            format!("the configuration's caBundle does not verify the webhook at {url}: {why}"),
        ),
        CallError::ClientCertificate(_) => Finding::unknown(
            NOT_ASKED,
            format!(
                "the controller can't ask the webhook at {url}: {why}: set --webhook-client-cert-dir on the controller"
            ),
        ),
        CallError::Unusable(_) => Finding::no(CERTIFICATE_INVALID, format!("the webhook at {url}: {why}")),
        CallError::Status { .. } | CallError::TooLong(_) => {
            Finding::no(WEBHOOK_UNKNOWN, format!("the webhook at {url} gave no answer of a webhook: {why}"))
        }
        _ => Finding::no(WEBHOOK_UNREACHABLE, format!("the controller can't reach the webhook at {url}: {why}")),
    }
}

/// Returns the URL with a timeout, in the form in which API servers send it.
fn with_timeout(url: &str) -> String {
    format!("{url}?timeout={}s", CALL.as_secs())
}

/// Returns a UID that is new for each call of this process: a matching answer must come from a server that has read it.
fn uid() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("depguard-controller-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_webhook_is_called_where_its_configuration_says() {
        let of = |client: Value, instead| Address::from_webhook(&json!({"clientConfig": client}), instead);
        let at_url = json!({"url": "https://host:9443/validate", "caBundle": "UEVN"});
        let address = of(at_url.clone(), None).unwrap();
        assert_eq!((address.url.as_str(), address.roots.as_deref()), ("https://host:9443/validate", Some(&b"PEM"[..])));
        assert_eq!((address.server_name, address.is_service), (None, false));

        let service = json!({"service": {"namespace": "ns", "name": "hook", "port": 9443, "path": "/validate"}});
        let address = of(service.clone(), None).unwrap();
        assert_eq!(address.url, "https://hook.ns.svc:9443/validate");
        assert!(address.is_service);

        for (client, name) in
            [(at_url, "host"), (service, "hook.ns.svc"), (json!({"url": "https://[::1]:1/validate"}), "::1")]
        {
            let address = of(client, Some("127.0.0.1:8443")).unwrap();
            assert_eq!(
                (address.url.as_str(), address.server_name.as_deref()),
                ("https://127.0.0.1:8443/validate", Some(name))
            );
            assert!(!address.is_service);
        }
        assert_eq!(of(json!({}), None), None);
    }

    #[test]
    fn a_replica_is_called_by_its_address_and_known_by_the_webhooks_name() {
        let webhook = json!({"clientConfig": {"url": "https://host:9443/validate"}});
        let address = Address::from_webhook(&webhook, None).unwrap().at("[::1]:9443".parse().unwrap());
        let Address { url, server_name, .. } = address;
        assert_eq!((url.as_str(), server_name.as_deref()), ("https://[::1]:9443/validate", Some("host")));
        let instead = Address::from_webhook(&webhook, Some("replicas:1")).unwrap().at("10.0.0.1:1".parse().unwrap());
        assert_eq!(
            (instead.url.as_str(), instead.server_name.as_deref()),
            ("https://10.0.0.1:1/validate", Some("host"))
        );
    }

    #[test]
    fn replicas_answer_together_and_an_address_without_one_counts_alone() {
        let unreachable = || Err(Finding::no(WEBHOOK_UNREACHABLE, ""));
        assert_eq!(together(vec![Ok(LoadedRules::new()), unreachable(), Ok(LoadedRules::new())]).unwrap().len(), 2);
        assert_eq!(together(vec![unreachable(), unreachable()]).unwrap_err().reason, WEBHOOK_UNREACHABLE);
        for why in [NOT_LOADED, WEBHOOK_UNKNOWN, CERTIFICATE_INVALID] {
            let other = together(vec![unreachable(), Ok(LoadedRules::new()), Err(Finding::no(why, ""))]);
            assert_eq!(other.unwrap_err().reason, why);
        }
    }
}
