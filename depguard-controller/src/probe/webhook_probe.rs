//! Probe of one webhook of a configuration: asks it, as an API server would reach it, which rules it decides by.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use depguard_core::probe::{Loaded, LoadedRulesRequest};
use depguard_core::rule::RuleKey;
use depguard_kcp::{CallError, Caller};
use http::Uri;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::Value;

use crate::model::condition::Finding;
use crate::probe::result::{CERTIFICATE_INVALID, Loaded as LoadedRules, NOT_ASKED, NOT_LOADED, WEBHOOK_UNREACHABLE};

/// Time limit of one call.
const CALL: Duration = Duration::from_secs(5);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 8 << 20;
/// Maximum number of rules that one call asks for.
const MAX_RULES_PER_REQUEST: usize = 10_000;

/// Address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// URL to call.
    url: String,
    /// Name in the webhook's certificate, if it isn't the host of the URL.
    server_name: Option<String>,
    /// Certificates by which the webhook is verified, as PEM.
    roots: Option<Vec<u8>>,
    /// Host and port of a service, which only the cluster's own name service may know.
    service: Option<(String, u16)>,
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
        let (url, service) = match client.get("url").and_then(Value::as_str) {
            Some(url) => (url.to_owned(), None),
            None => {
                let service = client.get("service")?;
                let text = |field: &str| service.get(field).and_then(Value::as_str);
                let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
                let (host, port) = (format!("{}.{}.svc", text("name")?, text("namespace")?), port.unwrap_or(443));
                (format!("https://{host}:{port}{}", text("path").unwrap_or("/")), Some((host, port)))
            }
        };
        let Some(instead) = instead else { return Some(Self { url, server_name: None, roots, service }) };
        let uri: Uri = url.parse().ok()?;
        let server_name = uri.host()?.trim_matches(['[', ']']).to_owned();
        let url = format!("https://{instead}{}", uri.path());
        Some(Self { url, server_name: Some(server_name), roots, service: None })
    }
}

/// Asks for the generations of these rules. A problem is returned in the form of a rule's condition.
///
/// `identity` is a folder with `tls.crt` and `tls.key`, for a webhook that asks for client certificates.
pub(crate) async fn ask(
    address: &Address,
    identity: Option<&Path>,
    rules: &[&RuleKey],
) -> Result<LoadedRules, Finding> {
    if let Some((host, port)) = &address.service
        && tokio::time::timeout(CALL, tokio::net::lookup_host((host.as_str(), *port)))
            .await
            .is_ok_and(|found| found.is_err())
    {
        return Err(Finding::unknown(
            NOT_ASKED,
            format!(
                "the controller can't resolve {host}, so it can't ask the webhook: run the controller in the cluster, \
                 or set --webhook-probe-address to an address that it reaches"
            ),
        ));
    }
    let roots = address.roots.as_deref();
    let caller = Caller::new(&with_timeout(&address.url), roots, address.server_name.as_deref(), identity);
    let caller = caller.map_err(|why| problem(&address.url, &why))?;
    let mut loaded = LoadedRules::new();
    for rules in rules.chunks(MAX_RULES_PER_REQUEST) {
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
                    NOT_ASKED,
                    format!(
                        "the webhook at {} does not report its rules: it has an older version, or is not depguard's",
                        address.url
                    ),
                ));
            }
            Err(why) => {
                return Err(Finding::no(
                    WEBHOOK_UNREACHABLE,
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
        assert_eq!((address.server_name, address.service), (None, None));

        let service = json!({"service": {"namespace": "ns", "name": "hook", "port": 9443, "path": "/validate"}});
        let address = of(service.clone(), None).unwrap();
        assert_eq!(address.url, "https://hook.ns.svc:9443/validate");
        assert_eq!(address.service, Some(("hook.ns.svc".to_owned(), 9443)));

        for (client, name) in
            [(at_url, "host"), (service, "hook.ns.svc"), (json!({"url": "https://[::1]:1/validate"}), "::1")]
        {
            let address = of(client, Some("127.0.0.1:8443")).unwrap();
            assert_eq!(
                (address.url.as_str(), address.server_name.as_deref()),
                ("https://127.0.0.1:8443/validate", Some(name))
            );
            assert_eq!(address.service, None);
        }
        assert_eq!(of(json!({}), None), None);
    }
}
