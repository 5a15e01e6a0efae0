//! Certificates of the test's servers and of their clients, made anew for each run.

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
    /// Creates an authority with a key of its own.
    pub fn new(name: &str) -> Outcome<Authority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { pem, issuer: Issuer::new(params, key) })
    }

    /// Returns the authority's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Writes `tls.crt` and `tls.key` of a server on 127.0.0.1 into `folder`, and the authority's certificate as
    /// `ca.crt`.
    pub fn issue(&self, folder: &Path) -> Outcome {
        self.issue_for(&["127.0.0.1", "localhost"], folder)
    }

    /// Writes the files of [`Authority::issue`] for a server with these names.
    pub fn issue_for(&self, names: &[&str], folder: &Path) -> Outcome {
        self.issue_server(names, &folder.join("tls"))?;
        Ok(std::fs::write(folder.join("ca.crt"), &self.pem)?)
    }

    /// Writes `<stem>.crt` and `<stem>.key` of a server with these names.
    pub(crate) fn issue_server(&self, names: &[&str], stem: &Path) -> Outcome {
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue_pair(&params, stem)
    }

    /// Writes `<stem>.crt` and `<stem>.key` of a user in a group.
    pub(crate) fn issue_client(&self, user: &str, group: &str, stem: &Path) -> Outcome {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue_pair(&params, stem)
    }

    fn issue_pair(&self, params: &CertificateParams, stem: &Path) -> Outcome {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        std::fs::write(stem.with_extension("crt"), certificate.pem())?;
        Ok(std::fs::write(stem.with_extension("key"), key.serialize_pem())?)
    }
}
