use super::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Returns a self-signed certificate and its key, in PEM.
fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn write(folder: &Path, (certificate, key): &(String, String)) {
    std::fs::write(folder.join(CERTIFICATE), certificate).unwrap();
    std::fs::write(folder.join(KEY), key).unwrap();
}

fn leaf(certificates: &Certificates) -> Vec<u8> {
    certificates.current.load().cert[0].to_vec()
}

#[tokio::test]
async fn errors_say_which_file_and_what_is_wrong() {
    let (one, other) = (pair(), pair());
    let long = format!("{}{}", one.0, " ".repeat(MAX_FILE));
    for (certificate, key, said) in [
        (None, Some(&*one.1), "cannot read `…/tls.crt`"),
        (Some(&*one.0), None, "cannot read `…/tls.key`"),
        (Some(""), Some(&*one.1), "`…/tls.crt` holds no certificate in PEM: no such PEM section"),
        (Some(&*one.1), Some(&*one.1), "`…/tls.crt` holds no certificate in PEM: no such PEM section"),
        (Some(&one.0[..200]), Some(&*one.1), "`…/tls.crt` holds no certificate in PEM: "),
        (Some(&*one.0), Some(&*one.0), "`…/tls.key` holds no private key in PEM: no such PEM section"),
        (Some(&*long), Some(&*one.1), "`…/tls.crt` is larger than 1024 KiB"),
        (Some(&*one.0), Some(&*other.1), "`tls.key` is not the key of the first certificate in `tls.crt`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [(CERTIFICATE, certificate), (KEY, key)] {
            if let Some(content) = content {
                std::fs::write(folder.path().join(name), content).unwrap();
            }
        }
        let error = open(folder.path(), Reload::default()).await.err().unwrap().to_string();
        let error = error.replace(folder.path().to_str().unwrap(), "…");
        assert!(error.contains(said), "`{error}` does not say `{said}`");
    }
}

#[tokio::test]
async fn a_chain_is_kept_whole() {
    let (one, other) = (pair(), pair());
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &(format!("{}{}", one.0, other.0), one.1));
    assert_eq!(open(folder.path(), Reload::default()).await.unwrap().current().cert.len(), 2);
}

#[tokio::test]
async fn a_changed_pair_is_taken_up_and_a_broken_one_is_not() {
    let (first, second) = (pair(), pair());
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &first);
    let mut files = open(folder.path(), Reload::default()).await.unwrap();
    let certificates = Certificates::new(&files);
    let before = leaf(&certificates);

    for broken in [(second.0.clone(), first.1.clone()), (String::new(), String::new())] {
        write(folder.path(), &broken);
        assert!(!files.refresh().await, "a broken pair was taken up");
    }
    std::fs::remove_file(folder.path().join(CERTIFICATE)).unwrap();
    assert!(!files.refresh().await, "a missing pair was taken up");

    write(folder.path(), &second);
    assert!(files.refresh().await, "the new pair was not taken up");
    certificates.replace(files.current());
    assert!(leaf(&certificates) != before);
}

/// Certificate authority: the PEM of its certificate, and the issuer.
type Authority = (String, Issuer<'static, KeyPair>);

fn authority(signed_by: Option<&Authority>) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let name = if signed_by.is_some() { "intermediate" } else { "root" };
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = match signed_by {
        None => params.self_signed(&key),
        Some((_, issuer)) => params.signed_by(&key, issuer),
    };
    (certificate.unwrap().pem(), Issuer::new(params, key))
}

/// Connects as API servers do, which know only the root.
#[tokio::test]
async fn a_chain_is_served_with_its_intermediates() {
    let root = authority(None);
    let intermediate = authority(Some(&root));
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &intermediate.1).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.0.as_bytes()).unwrap()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let client = TlsConnector::from(Arc::new(client.with_root_certificates(roots).with_no_client_auth()));
    for (chain, trusted) in [(leaf.pem(), false), (format!("{}{}", leaf.pem(), intermediate.0), true)] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &(chain, key.serialize_pem()));
        let certificates = Arc::new(Certificates::new(&open(folder.path(), Reload::default()).await.unwrap()));
        let server = TlsAcceptor::from(Arc::new(certificates.server_config(None).unwrap()));
        let (one, other) = tokio::io::duplex(64 << 10);
        let (shaken, _) = tokio::join!(client.connect("localhost".try_into().unwrap(), one), server.accept(other));
        assert_eq!(shaken.is_ok(), trusted, "{:?}", shaken.err());
    }
}

/// Changes the files as a kubelet changes a mounted Secret: they are links into a folder that is itself replaced by a
/// link.
#[tokio::test]
async fn a_mounted_secret_is_followed_through_its_links() {
    use std::os::unix::fs::symlink;
    let mount = tempfile::tempdir().unwrap();
    let mount = mount.path();
    let put = |version: &str, pair: &(String, String)| {
        let real = mount.join(version);
        std::fs::create_dir(&real).unwrap();
        write(&real, pair);
        symlink(version, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    put("..2026_01_01", &pair());
    for name in [CERTIFICATE, KEY] {
        symlink(format!("..data/{name}"), mount.join(name)).unwrap();
    }
    let mut files = open(mount, Reload::default()).await.unwrap();
    for version in ["..2026_01_02", "..2026_01_03"] {
        let next = pair();
        put(version, &next);
        assert!(files.refresh().await);
        let served = &files.current().cert[0];
        assert_eq!(*served, CertificateDer::from_pem_slice(next.0.as_bytes()).unwrap());
    }
}
