//! Access for clients that must show a certificate.

use std::path::Path;

use depguard_kcp::Reloads;
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::server::client_ca;

/// Certificate authority for clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate chain and its key.
type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn signs(&self, edit: impl FnOnce(&mut CertificateParams)) -> Shown {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["kube-apiserver".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        edit(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// Starts a server that lets in clients with a certificate of `authorities`, and follows their file.
async fn start(folder: &Path, authorities: &[&Authority]) -> (Bench, Registry) {
    let (reloads, mut registry) = (Reloads::default(), Registry::default());
    reloads.register(&mut registry);
    write(folder, &pem(authorities));
    let (path, mut following) = (folder.join("clients.crt"), None);
    let (bench, tls) = Bench::from_parts(10, async |certificates| {
        let file = client_ca::open(path, certificates, reloads.of("client-ca")).await.unwrap();
        Arc::clone(following.insert(file).current())
    })
    .await;
    let changed = move |config: &Arc<_>| _ = tls.send_replace(Arc::clone(config));
    bench.tasks.spawn(following.unwrap().follow(Duration::from_millis(20), changed));
    (bench, registry)
}

/// Writes the file in one step, so that nobody sees half of it.
fn write(folder: &Path, content: &str) {
    std::fs::write(folder.join("new"), content).unwrap();
    std::fs::rename(folder.join("new"), folder.join("clients.crt")).unwrap();
}

fn pem(authorities: &[&Authority]) -> String {
    authorities.iter().map(|authority| authority.pem.as_str()).collect()
}

/// Waits until the metrics show this text.
async fn shown(registry: &Registry, what: &str) {
    until(what, async || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.contains(what)
    })
    .await;
}

/// Waits until `is_so` returns true.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), waiting).await.is_ok(), "{what}");
}

impl Bench {
    /// Sends a request on a connection of its own. `Err` if nobody answers.
    async fn asks(
        &self,
        shown: Option<&Shown>,
        version: &'static SupportedProtocolVersion,
    ) -> Result<http1::SendRequest<Full<Bytes>>, String> {
        let builder = self.client(&[version]);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await;
        let stream = stream.map_err(|why| why.to_string())?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
        tokio::spawn(connection);
        // With TLS 1.3 a client ends its handshake before it learns that it is not let in.
        let response = sender.send_request(get("/")).await.map_err(|why| why.to_string())?;
        assert_eq!(body(response).await, "done");
        Ok(sender)
    }
}

#[tokio::test]
async fn only_who_shows_a_good_certificate_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (own, strange) = (Authority::new(), Authority::new());
    let (bench, _) = start(folder.path(), &[&own]).await;
    let good = own.signs(|_| ());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        bench.asks(Some(&good), version).await.unwrap();
        for (what, shown) in [
            ("none", None),
            ("another authority's", Some(strange.signs(|_| ()))),
            ("ended", Some(own.signs(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)))),
            ("not begun", Some(own.signs(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1)))),
            (
                "a server's",
                Some(own.signs(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])),
            ),
        ] {
            assert!(bench.asks(shown.as_ref(), version).await.is_err(), "{what}");
        }
    }
    bench.asks(Some(&good), &rustls::version::TLS13).await.unwrap();
}

#[tokio::test]
async fn a_changed_authority_is_taken_up_and_a_broken_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let (bench, metrics) = start(folder.path(), &[&old]).await;
    let (by_old, by_new) = (old.signs(|_| ()), new.signs(|_| ()));
    let version = &rustls::version::TLS13;
    let mut kept = bench.asks(Some(&by_old), version).await.unwrap();
    assert!(bench.asks(Some(&by_new), version).await.is_err());

    let long = format!("{}{}", pem(&[&new]), " ".repeat(1 << 20));
    for (failures, broken) in (1..).zip(["", "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n", &long]) {
        write(folder.path(), broken);
        shown(&metrics, &format!("depguard_reload_failures_total{{file=\"client-ca\"}} {failures}\n")).await;
        bench.asks(Some(&by_old), version).await.unwrap();
    }
    std::fs::remove_file(folder.path().join("clients.crt")).unwrap();
    shown(&metrics, "depguard_reload_failures_total{file=\"client-ca\"} 4\n").await;
    // A file with the same content closes nobody's connection.
    write(folder.path(), &pem(&[&old]));
    shown(&metrics, "depguard_reload_failing{file=\"client-ca\"} 0\n").await;
    assert_eq!(body(kept.send_request(get("/")).await.unwrap()).await, "done");

    write(folder.path(), &pem(&[&old, &new]));
    until("the new one is let in", async || bench.asks(Some(&by_new), version).await.is_ok()).await;
    bench.asks(Some(&by_old), version).await.unwrap();
    // A client that was let in before must connect again.
    until("it is asked to go", async || kept.send_request(get("/")).await.is_err()).await;
    write(folder.path(), &pem(&[&new]));
    until("the old one is not let in", async || bench.asks(Some(&by_old), version).await.is_err()).await;
    bench.asks(Some(&by_new), version).await.unwrap();
}
