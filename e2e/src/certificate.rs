//! Certificates for 127.0.0.1, made anew for each run.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::outcome::Outcome;

/// A certificate authority that lives as long as the test.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority with a key of its own.
    pub fn new(name: &str) -> Outcome<Authority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { pem, issuer: Issuer::new(params, key) })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Writes `tls.crt` and `tls.key` of a server on 127.0.0.1 into `folder`, and `ca.crt` beside.
    pub fn issue(&self, folder: &Path) -> Outcome {
        self.issue_for(&["127.0.0.1", "localhost"], folder)
    }

    /// The same for a server of other names.
    pub fn issue_for(&self, names: &[&str], folder: &Path) -> Outcome {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        std::fs::write(folder.join("tls.crt"), certificate.pem())?;
        std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
        std::fs::write(folder.join("ca.crt"), &self.pem)?;
        Ok(())
    }
}
