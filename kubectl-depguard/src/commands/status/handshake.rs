//! TLS handshake that reads the certificate shown at an address, whoever issued it and however old it is. No request is
//! sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_kcp::certificate_expiry;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Timeout of the handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the `host:port` of an `https` URL.
pub(super) fn authority(url: &str) -> Option<String> {
    let authority = url.strip_prefix("https://")?.split(['/', '?']).next().filter(|authority| !authority.is_empty())?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { authority.to_owned() } else { format!("{authority}:443") })
}

/// Returns the earliest end of the certificates in the shown chain, in seconds since 1970.
pub(super) async fn ends(authority: &str) -> Result<i64, String> {
    let shown = tokio::time::timeout(PATIENCE, read_expiry(authority)).await;
    shown.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn read_expiry(authority: &str) -> Result<i64, String> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|why| why.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let recorder = Arc::new(ExpiryRecorder { provider: Arc::clone(&provider), ends: Mutex::default() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::<ExpiryRecorder>::clone(&recorder))
        .with_no_client_auth();
    let stream = TcpStream::connect(authority).await.map_err(|why| why.to_string())?;
    let done = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    // A server that asks for a client certificate has shown its own by then.
    let ends = *recorder.ends.lock().unwrap_or_else(PoisonError::into_inner);
    match (ends, done) {
        (Some(ends), _) => Ok(ends),
        (None, Err(why)) => Err(why.to_string()),
        (None, Ok(_)) => Err("could not read its end of validity".to_owned()),
    }
}

/// Verifier that accepts every certificate and records its end, as only the end matters.
#[derive(Debug)]
struct ExpiryRecorder {
    provider: Arc<CryptoProvider>,
    ends: Mutex<Option<i64>>,
}

impl ServerCertVerifier for ExpiryRecorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = [end_entity].into_iter().chain(intermediates);
        let first = chain.map(|certificate| certificate_expiry(certificate)).min().flatten();
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = first;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_an_address() {
        for (url, expected) in [
            ("https://guard.example.com/validate", Some("guard.example.com:443")),
            ("https://10.0.0.1:9443/validate/x", Some("10.0.0.1:9443")),
            ("https://[2001:db8::1]/validate", Some("[2001:db8::1]:443")),
            ("http://guard.example.com/", None),
            ("https://", None),
            ("", None),
        ] {
            assert_eq!(authority(url).as_deref(), expected, "{url}");
        }
    }
}
