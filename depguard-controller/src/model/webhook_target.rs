//! Address of the webhook, as API servers reach it.

use std::fmt;
use std::str::FromStr;

use depguard_core::ControlPlane;
use depguard_core::api::FailurePolicy;
use http::Uri;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// Address at which API servers reach the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookTarget {
    /// An `https` URL.
    Url(String),
    /// A service of the API server's own cluster, in plain Kubernetes only: kcp has no services.
    Service {
        /// Namespace of the service.
        namespace: String,
        /// Name of the service.
        name: String,
        /// Port of the service.
        port: u16,
        /// Path, with its leading slash.
        path: String,
    },
}

/// Reason why API servers can't reach the webhook at the given address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookTargetError {
    /// Neither a URL nor a service was given.
    #[error(
        "no address of the webhook is set, so nothing can be installed: set `--webhook-url https://…/validate`{}",
        or_service(*control_plane)
    )]
    Missing {
        /// Control plane on which depguard runs.
        control_plane: ControlPlane,
    },
    /// Both were given.
    #[error("both a webhook URL and a webhook service are set: leave one out")]
    Both,
    /// An API server would refuse this URL.
    #[error("the webhook URL `{url}` {why}")]
    Url {
        /// The URL that was given.
        url: String,
        /// Problem with the URL.
        why: &'static str,
    },
    /// The text is neither `namespace/name` nor `namespace/name:port`.
    #[error("`{service}` does not name a service: write `namespace/name` or `namespace/name:port`")]
    Service {
        /// The text that was given.
        service: String,
    },
    /// kcp calls webhooks by URL only.
    #[error("kcp can't call a webhook by its service: set `--webhook-url https://…/validate` instead")]
    ServiceInKcp,
}

/// Path at which depguard's webhook answers.
pub(crate) const PATH: &str = "/validate";
/// Suffix of this path for rules with `failurePolicy: Ignore`.
const IGNORE: &str = "/ignore";

impl WebhookTarget {
    /// Checks that API servers of this control plane can call the webhook at this address.
    pub fn check(&self, control_plane: ControlPlane) -> Result<(), WebhookTargetError> {
        match self {
            Self::Url(url) => check_url(url, control_plane),
            Self::Service { .. } if control_plane == ControlPlane::Kcp => Err(WebhookTargetError::ServiceInKcp),
            Self::Service { .. } => Ok(()),
        }
    }

    /// Returns the `clientConfig` of the webhook for the rules with this policy: rules with `Ignore` have a path of
    /// their own. `suffix` goes behind the path; `ca_bundle` is PEM; without it the API server's own roots count.
    pub(crate) fn client_config(&self, policy: FailurePolicy, suffix: &str, ca_bundle: Option<&[u8]>) -> Value {
        let at = |path: &str| match policy {
            FailurePolicy::Fail if suffix.is_empty() => path.to_owned(),
            FailurePolicy::Fail => format!("{}{suffix}", path.trim_end_matches('/')),
            FailurePolicy::Ignore => format!("{}{IGNORE}{suffix}", path.trim_end_matches('/')),
        };
        self.client_config_at(at, ca_bundle)
    }

    /// Returns the `clientConfig` with another path: `at` makes it from the path, or the URL, for rules.
    pub(crate) fn client_config_at(&self, at: impl Fn(&str) -> String, ca_bundle: Option<&[u8]>) -> Value {
        let mut config = match self {
            Self::Url(url) => json!({"url": at(url)}),
            Self::Service { namespace, name, port, path } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": at(path)}})
            }
        };
        if let (Some(config), Some(pem)) = (config.as_object_mut(), ca_bundle) {
            config.insert("caBundle".to_owned(), json!(ByteString(pem.to_vec())));
        }
        config
    }
}

/// Reads a service as the command line gives it: `namespace/name` or `namespace/name:port`, with port 443 by default.
impl FromStr for WebhookTarget {
    type Err = WebhookTargetError;
    fn from_str(service: &str) -> Result<Self, WebhookTargetError> {
        let error = || WebhookTargetError::Service { service: service.to_owned() };
        let (namespace, rest) = service.split_once('/').ok_or_else(error)?;
        let (name, port) = match rest.split_once(':') {
            None => (rest, 443),
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0).ok_or_else(error)?),
        };
        let label = |s: &str| {
            !s.is_empty()
                && s.len() <= 63
                && s.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        };
        if !label(namespace) || !label(name) {
            return Err(error());
        }
        Ok(Self::Service { namespace: namespace.to_owned(), name: name.to_owned(), port, path: PATH.to_owned() })
    }
}

impl fmt::Display for WebhookTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Service { namespace, name, port, path } => write!(f, "service {namespace}/{name}:{port}{path}"),
        }
    }
}

/// Checks what API servers check of a URL when a configuration is written.
fn check_url(url: &str, control_plane: ControlPlane) -> Result<(), WebhookTargetError> {
    let refused = |why| Err(WebhookTargetError::Url { url: url.to_owned(), why });
    if url.is_empty() {
        return Err(WebhookTargetError::Missing { control_plane });
    }
    if url.contains('#') {
        return refused("has a fragment (`#…`), which an API server refuses");
    }
    let Ok(uri) = url.parse::<Uri>() else { return refused("is not a URL such as `https://host:9443/validate`") };
    if uri.scheme_str() != Some("https") {
        return refused("does not begin with `https://`: API servers call webhooks over TLS only");
    }
    if uri.host().unwrap_or_default().is_empty() {
        return refused("names no host");
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return refused("holds a user or a password, which an API server refuses");
    }
    // The port follows the brackets of an IPv6 address, or the host.
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let (_, port) = authority.rsplit_once(']').unwrap_or(("", authority)).1.split_once(':').unwrap_or(("", "443"));
    if port.parse::<u16>().is_err() {
        return refused("has a port that is not a number up to 65535");
    }
    if uri.query().is_some() {
        return refused("has a query (`?…`), which an API server refuses");
    }
    Ok(())
}

fn or_service(control_plane: ControlPlane) -> &'static str {
    match control_plane {
        ControlPlane::Kcp => "",
        ControlPlane::Kubernetes => " or `--webhook-service namespace/name`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_what_an_api_server_takes() {
        let check = |url: &str| WebhookTarget::Url(url.to_owned()).check(ControlPlane::Kcp);
        for url in ["https://10.0.0.1:9443/validate", "https://depguard.example.com", "https://[::1]:9443/validate"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "http://host/validate",
            "host/validate",
            "https://",
            "https://u:p@host/validate",
            "https://host/?a=b",
            "https://host/#a",
            "https://host:x/",
        ] {
            assert!(matches!(check(url), Err(WebhookTargetError::Url { .. })), "{url}");
        }
        assert_eq!(check(""), Err(WebhookTargetError::Missing { control_plane: ControlPlane::Kcp }));
    }

    #[test]
    fn a_service_has_a_namespace_a_name_and_maybe_a_port() {
        let service = |name: &str, port| WebhookTarget::Service {
            namespace: "depguard-system".to_owned(),
            name: name.to_owned(),
            port,
            path: "/validate".to_owned(),
        };
        assert_eq!("depguard-system/webhook".parse(), Ok(service("webhook", 443)));
        assert_eq!("depguard-system/webhook:9443".parse(), Ok(service("webhook", 9443)));
        for bad in ["", "webhook", "a/", "/b", "a/b:", "a/b:0", "a/b:65536", "a/b/c", "A/b"] {
            assert!(bad.parse::<WebhookTarget>().is_err(), "{bad}");
        }
        assert_eq!(service("webhook", 443).check(ControlPlane::Kcp), Err(WebhookTargetError::ServiceInKcp));
        assert_eq!(service("webhook", 443).check(ControlPlane::Kubernetes), Ok(()));
    }

    #[test]
    fn the_bundle_goes_in_as_base64() {
        let target = WebhookTarget::Url("https://host/validate".to_owned());
        let config = |pem| target.client_config(FailurePolicy::Fail, "", pem);
        assert_eq!(config(Some(b"PEM".as_slice())), json!({"url": "https://host/validate", "caBundle": "UEVN"}));
        assert_eq!(config(None), json!({"url": "https://host/validate"}));
    }

    #[test]
    fn rules_with_ignore_have_a_path_of_their_own() {
        for (url, expected) in [
            ("https://host/validate", "https://host/validate/ignore"),
            ("https://host/validate/", "https://host/validate/ignore"),
            ("https://host", "https://host/ignore"),
        ] {
            let target = WebhookTarget::Url(url.to_owned());
            assert_eq!(target.client_config(FailurePolicy::Ignore, "", None), json!({"url": expected}));
        }
        let service: WebhookTarget = "a/b".parse().unwrap();
        assert_eq!(service.client_config(FailurePolicy::Ignore, "", None)["service"]["path"], "/validate/ignore");
    }
}
