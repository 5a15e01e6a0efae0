//! Certificate authority made at the start, and TLS for servers and clients.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::transport::StartError;

/// TLS configurations of the server, and the CA by which its clients verify it.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    /// Configurations with a valid and with an expired certificate.
    pub(crate) servers: [Arc<ServerConfig>; 2],
}

/// Makes a CA and two certificates for `127.0.0.1` and `localhost`, signed by it.
pub(crate) fn make_identity() -> Result<Identity, StartError> {
    let ca = make_ca()?;
    let servers = [make_server(&ca, &[], false)?, make_server(&ca, &[], true)?];
    Ok(Identity { ca_pem: ca.pem(), servers })
}

/// Returns a server's configuration for these additional names, and the CA that signed its certificate.
pub(crate) fn make_webhook_identity(names: &[String]) -> Result<(Arc<ServerConfig>, String), StartError> {
    let ca = make_ca()?;
    Ok((make_server(&ca, names, false)?, ca.pem()))
}

fn make_ca() -> Result<CertifiedIssuer<'static, KeyPair>, StartError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "depguard-testbed-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    KeyPair::generate().and_then(|key| CertifiedIssuer::self_signed(params, key)).map_err(unmade)
}

/// Boxes the error, so that this library's errors are not part of the crate's API.
fn unmade(why: rcgen::Error) -> StartError {
    StartError::Certificate(Box::new(why))
}

fn make_server(
    ca: &CertifiedIssuer<'_, KeyPair>,
    names: &[String],
    expired: bool,
) -> Result<Arc<ServerConfig>, StartError> {
    let local = ["127.0.0.1", "localhost"].map(str::to_owned);
    let mut params = CertificateParams::new([&local[..], names].concat()).map_err(unmade)?;
    params.distinguished_name.push(DnType::CommonName, "depguard-testbed");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    if expired {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    }
    let key = KeyPair::generate().map_err(unmade)?;
    let certificate = params.signed_by(&key, ca).map_err(unmade)?;

    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}

/// Returns a client that trusts only the authorities of `ca_pem`, as an API server does with a `caBundle`.
pub(crate) fn client_trusting(ca_pem: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        let certificate = certificate.map_err(|why| format!("unable to load root certificates: {why}"))?;
        roots.add(certificate).map_err(|why| format!("unable to load root certificates: {why}"))?;
    }
    if roots.is_empty() {
        return Err("unable to load root certificates: no certificate in caBundle".to_owned());
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
