//! Processes as the chart renders them, with the user's names put in. The chart's test renders both files, and compares
//! everything that is installed with the chart.

use std::net::IpAddr;

use depguard_controller::manifests::{NAMESPACE, ReadThrough};
use depguard_core::ControlPlane;
use serde_json::{Map, Value, json};

use super::objects::{MANAGED_BY, MANAGER};
use crate::cluster::resource_path::text;
use crate::io::exit::Failure;

const KUBERNETES: &str = include_str!("../../../manifests/kubernetes.yaml");
const KCP: &str = include_str!("../../../manifests/kcp.yaml");

/// Placeholders that the chart was rendered with.
const IMAGE: &str = "registry.invalid/depguard:image";
const URL: &str = "https://webhook.invalid/validate";
const HOST: &str = "webhook.invalid";
const WAY: &str = "--read-through=front-proxy";
/// Secret of the certificate, unless the user names another.
pub(crate) const TLS_SECRET: &str = "depguard-webhook-tls";
/// Secret of the CA that issued the certificate, if the CA is depguard's own.
pub(crate) const CA_SECRET: &str = "depguard-ca";

/// Values for the placeholders.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) control_plane: ControlPlane,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) tls_secret: String,
    /// URL at which kcp's shards reach the webhook.
    pub(crate) webhook_url: Option<String>,
    pub(crate) read_through: ReadThrough,
}

/// Issuer of the certificate, if cert-manager makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Issuer {
    /// CA of depguard's own.
    Own,
    /// Issuer that exists already.
    Given {
        /// `Issuer` or `ClusterIssuer`.
        kind: String,
        name: String,
    },
}

/// Returns the Deployments, Services and the objects that belong to them; the certificate only if cert-manager makes
/// it.
pub(crate) fn objects(names: &Names, issuer: Option<&Issuer>) -> Result<Vec<Value>, Failure> {
    let rendered = if names.control_plane == ControlPlane::Kcp { KCP } else { KUBERNETES };
    let rendered: Vec<Value> = serde_saphyr::from_multiple(rendered).map_err(Failure::new)?;
    let way = match names.read_through {
        ReadThrough::FrontProxy => WAY,
        ReadThrough::Export => "--read-through=export",
    };
    let url = names.webhook_url.as_deref().unwrap_or(URL);
    let put_in = [
        (NAMESPACE, names.namespace.as_str()),
        (IMAGE, &names.image),
        (TLS_SECRET, &names.tls_secret),
        (URL, url),
        (WAY, way),
    ];
    let installed = rendered.into_iter().filter(|object| is_installed(object, issuer));
    Ok(installed
        .map(|mut object| {
            replace(&mut object, &put_in);
            if text(&object, "/kind") == "Certificate" && text(&object, "/metadata/name") == "depguard-webhook" {
                certify(&mut object, url, issuer);
            }
            object
        })
        .collect())
}

/// Returns the host of a URL such as `https://host:port/path`, without the brackets of an IPv6 address.
pub(crate) fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Returns the names by which API servers know the webhook.
pub(crate) fn dns_names(names: &Names) -> Vec<String> {
    let service = format!("depguard-webhook.{}.svc", names.namespace);
    let url = names.webhook_url.as_deref().map(|url| host(url).to_owned());
    let in_full = format!("{service}.cluster.local");
    [service, in_full].into_iter().chain(url).collect()
}

fn is_installed(object: &Value, issuer: Option<&Issuer>) -> bool {
    match (text(object, "/apiVersion").starts_with("cert-manager.io/"), issuer) {
        (false, _) => true,
        (true, None) => false,
        (true, Some(Issuer::Own)) => true,
        (true, Some(Issuer::Given { .. })) => text(object, "/metadata/name") == "depguard-webhook",
    }
}

/// Sets the fields of the Certificate that replaced text can't express.
fn certify(certificate: &mut Value, url: &str, issuer: Option<&Issuer>) {
    let Some(spec) = certificate.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(Issuer::Given { kind, name }) = issuer {
        spec.insert("issuerRef".to_owned(), json!({"kind": kind, "name": name}));
    }
    let Some(names) = spec.get_mut("dnsNames").and_then(Value::as_array_mut) else { return };
    if !names.iter().any(|name| name == HOST) {
        return;
    }
    names.retain(|name| name != HOST);
    let host = host(url);
    if host.parse::<IpAddr>().is_ok() {
        spec.insert("ipAddresses".to_owned(), json!([host]));
    } else if !names.iter().any(|name| name == host) {
        names.push(json!(host));
    }
}

/// Replaces text everywhere in a value, and marks the objects with their installer.
pub(crate) fn replace(value: &mut Value, put_in: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            for (from, to) in put_in {
                if text.contains(from) {
                    *text = text.replace(from, to);
                    // The inserted text is the user's, and stays as it is.
                    break;
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, put_in)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| replace(value, put_in));
            sign(fields);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn sign(labels: &mut Map<String, Value>) {
    if labels.contains_key(MANAGED_BY) {
        labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
        labels.remove("helm.sh/chart");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_told() {
        for (url, expected) in [
            ("https://depguard.example.com/validate", "depguard.example.com"),
            ("https://10.0.0.1:9443/validate", "10.0.0.1"),
            ("https://[2001:db8::1]:9443/validate", "2001:db8::1"),
            ("", ""),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn nothing_is_left_of_what_the_chart_was_rendered_with() {
        let names = Names {
            control_plane: ControlPlane::Kcp,
            namespace: "elsewhere".to_owned(),
            image: "example.com/depguard@sha256:0".to_owned(),
            tls_secret: "pair".to_owned(),
            webhook_url: Some("https://10.0.0.1/validate".to_owned()),
            read_through: ReadThrough::Export,
        };
        for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
            let names = Names { control_plane, ..names.clone() };
            let text = json!(objects(&names, Some(&Issuer::Own)).unwrap()).to_string();
            for left in [NAMESPACE, IMAGE, TLS_SECRET, HOST, WAY, "Helm", "helm.sh"] {
                assert!(!text.contains(left), "{left} in {text}");
            }
        }
        let certificates =
            objects(&names, Some(&Issuer::Given { kind: "Issuer".into(), name: "ours".into() })).unwrap();
        let certificate = certificates.iter().find(|object| object["kind"] == "Certificate").unwrap();
        assert_eq!(certificate["spec"]["ipAddresses"], json!(["10.0.0.1"]));
        assert_eq!(certificate["spec"]["issuerRef"]["name"], "ours");
        assert!(!certificates.iter().any(|object| object["kind"] == "Issuer"));
    }
}
