//! Certificate for the webhook, issued by depguard's own CA, for clusters without cert-manager.
//!
//! Both are kept in Secrets. Nothing renews them automatically. A later install renews the certificate with the same
//! CA, so that API servers trust the new one.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use depguard_kcp::Endpoint;
use k8s_openapi::jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::chart::{CA_SECRET, TLS_SECRET};
use super::objects::{is_ours, secret};
use crate::io::exit::Failure;

/// Validity in days, of the certificate and of the CA.
const DAYS_OF_PAIR: i64 = 365;
const DAYS_OF_CA: i64 = 3650;
/// A certificate with no more days left is renewed.
const DAYS_LEFT: i64 = 120;
const DAY: i64 = 86_400;
/// Annotation of the Secret: the names that the certificate is for.
const NAMES: &str = "depguard.opendefense.cloud/names";

/// State of the Secrets.
#[derive(Debug)]
pub(crate) enum Pair {
    /// The Secrets exist and are good.
    Kept,
    /// The Secrets must be applied.
    Made(Vec<Value>),
}

/// Returns the Secrets for a webhook of these names. `endpoint`: the cluster that may have them already.
pub(crate) async fn pair(endpoint: Option<&Endpoint>, namespace: &str, names: &[String]) -> Result<Pair, Failure> {
    let (tls, ca) = match endpoint {
        Some(endpoint) => (read(endpoint, namespace, TLS_SECRET).await?, read(endpoint, namespace, CA_SECRET).await?),
        None => (None, None),
    };
    if tls.as_ref().is_some_and(|tls| !is_ours(tls) || is_good(tls, names)) {
        return Ok(Pair::Kept);
    }
    let known = ca.as_ref().filter(|ca| is_ours(ca));
    let authority = match known {
        Some(secret) => CertificateAuthority::from_secret(secret).ok_or_else(|| {
            Failure::new(format!("the Secret {CA_SECRET} in namespace {namespace} has no usable CA"))
                .hint("renew the certificate by hand (see docs/operations.md), and name its Secret with --tls-secret")
        })?,
        None if tls.is_some() => {
            return Err(Failure::new(format!(
                "the certificate in Secret {TLS_SECRET} must be renewed, but Secret {CA_SECRET} with its CA does not \
                 exist; API servers would not trust another CA"
            ))
            .hint("renew it by hand (see docs/operations.md), and name its Secret with --tls-secret"));
        }
        None => CertificateAuthority::new()?,
    };
    let tls = authority.issue(namespace, names)?;
    Ok(Pair::Made(match known {
        Some(_) => vec![tls],
        None => vec![authority.secret(namespace), tls],
    }))
}

/// Returns the earliest end of the certificates in a chain, in seconds since 1970; `None` if any can't be read.
pub(crate) fn ends(chain: &[u8]) -> Option<i64> {
    let certificates = CertificateDer::pem_slice_iter(chain).filter_map(Result::ok);
    certificates.map(|certificate| depguard_kcp::certificate_expiry(&certificate)).min().flatten()
}

/// Returns the value of a Secret's key.
pub(crate) fn held(secret: &Value, key: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok()
}

async fn read(endpoint: &Endpoint, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    match endpoint.get_json(&format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await {
        Ok(found) => Ok(Some(found)),
        Err(why) if why.is_not_found() => Ok(None),
        Err(why) => Err(Failure::new(why)),
    }
}

fn is_good(tls: &Value, names: &[String]) -> bool {
    let until = held(tls, "tls.crt").and_then(|chain| ends(&chain)).unwrap_or_default();
    let left = until.saturating_sub(Timestamp::now().as_second()) / DAY;
    let annotations = tls.pointer("/metadata/annotations");
    let of = annotations.and_then(|annotations| annotations.get(NAMES)).and_then(Value::as_str);
    left > DAYS_LEFT && of == Some(&names.join(","))
}

/// CA that signs certificates.
struct CertificateAuthority {
    pem: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    fn new() -> Result<Self, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = Self::params();
        last(&mut params, DAYS_OF_CA)?;
        let pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { pem, key: key.serialize_pem(), issuer: Issuer::new(params, key) })
    }

    fn from_secret(secret: &Value) -> Option<Self> {
        let text = |key: &str| String::from_utf8(held(secret, key)?).ok();
        let (pem, key) = (text("tls.crt")?, text("tls.key")?);
        let pair = KeyPair::from_pem(&key).ok()?;
        // The key signs, under the name that all CAs of `install` have.
        Some(Self { pem, key, issuer: Issuer::new(Self::params(), pair) })
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, CA_SECRET);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params
    }

    fn secret(&self, namespace: &str) -> Value {
        let data = json!({"tls.crt": BASE64_STANDARD.encode(&self.pem), "tls.key": BASE64_STANDARD.encode(&self.key)});
        secret(namespace, CA_SECRET, &data, &json!({}))
    }

    fn issue(&self, namespace: &str, names: &[String]) -> Result<Value, Failure> {
        let wrong = |why| {
            Failure::new(format!("could not create a certificate for {}: {why}", names.join(", ")))
                .hint("name a host that is a DNS name or an IP address in --webhook-url")
        };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(wrong)?;
        let first = names.iter().find(|name| name.parse::<IpAddr>().is_err()).cloned().unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, first.chars().take(64).collect::<String>());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        last(&mut params, DAYS_OF_PAIR)?;
        let pem = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        let data = json!({
            "tls.crt": BASE64_STANDARD.encode(pem),
            "tls.key": BASE64_STANDARD.encode(key.serialize_pem()),
            "ca.crt": BASE64_STANDARD.encode(&self.pem),
        });
        Ok(secret(namespace, TLS_SECRET, &data, &json!({NAMES: names.join(",")})))
    }
}

/// Sets the validity: from yesterday, as clocks differ, for this many days.
fn last(params: &mut CertificateParams, days: i64) -> Result<(), Failure> {
    let now = Timestamp::now();
    let date = |days: i64| {
        let then = now.checked_add(days.saturating_mul(24).hours()).map_err(failed)?;
        let date = TimeZone::UTC.to_datetime(then).date();
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        Ok::<_, Failure>(date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day())))
    };
    (params.not_before, params.not_after) = (date(-1)?, date(days)?);
    Ok(())
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("could not create a certificate: {why}"))
        .hint("name a Secret with a certificate with --tls-secret")
}
