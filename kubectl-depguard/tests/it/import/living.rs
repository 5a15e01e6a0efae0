//! Two API servers with a sync agent between them, and depguard on one or both. Deletions end in the right order,
//! whichever side begins.

use std::sync::Arc;

use depguard_e2e::{Depguard, Mode, Provider, Resource, Ring, RingKind, World, eventually};
use serde_json::{Value, json};

use crate::import::agent::{Agent, Related, Synced};
use crate::import::{SYNC_AGENT, imported};

/// Both sides, the agent between them, and depguard on the sides that a test guards.
struct Scene {
    kcp: Arc<World>,
    service: Arc<World>,
    /// Providers of certificates and stamps, one on each side.
    offers: [Provider; 2],
    agent: Agent,
    running: Vec<Depguard>,
}

/// Returns the part of a PublishedResource about the related Secret.
fn secret() -> Value {
    json!({"identifier": "tls-secret", "origin": "service", "version": "v1", "resource": "secrets",
        "object": {"reference": {"path": "spec.secretName"}}})
}

fn stamp(scene: &Scene) -> Value {
    let [kcp, service] = scene.kinds("Stamp");
    json!({"identifier": "stamp", "origin": "kcp", "group": kcp.group, "version": "v1alpha1", "resource": kcp.plural,
        "projection": {"group": service.group}, "object": {"reference": {"path": "spec.stamp"}}})
}

impl Scene {
    async fn set() -> Scene {
        let world = async |kind, id: &str| {
            let ring = Arc::new(Ring::testbed(kind).await.unwrap());
            Arc::new(World::create(ring, Mode::Guarded, id, id).await.unwrap())
        };
        let (kcp, service) =
            tokio::join!(world(RingKind::TestbedKcp, "consumers"), world(RingKind::TestbedKubernetes, "services"));
        let kinds = || vec![Resource::namespaced("Certificate").with_scale(), Resource::namespaced("Stamp")];
        let mut offers = Vec::new();
        let mut consumers = Vec::new();
        for world in [&kcp, &service] {
            let offer = world.provider("providers:certs", "certs.example.com", kinds()).await.unwrap();
            world.bind_depguard(&offer).await.unwrap();
            consumers.push(world.consumer("consumer", &[&offer]).await.unwrap());
            offers.push(offer);
        }
        let offers: [Provider; 2] = offers.try_into().unwrap_or_else(|_| unreachable!("one a world"));
        let synced = |kind: &str| {
            let [kcp, service] = offers.each_ref().map(|offer| offer.kind(kind).unwrap());
            Synced { kcp, service }
        };
        let core = Resource { versions: &["v1"], ..Resource::namespaced("Secret") };
        let secrets = Synced { kcp: core.clone(), service: core };
        let related = vec![
            Related { kind: secrets, field: "secretName", of_kcp: false },
            Related { kind: synced("Stamp"), field: "stamp", of_kcp: true },
        ];
        let [there, here] = <[_; 2]>::try_from(consumers).unwrap_or_else(|_| unreachable!("one a world"));
        let agent = Agent { kcp: there, service: here, published: synced("Certificate"), related };
        Scene { kcp, service, offers, agent, running: Vec::new() }
    }

    /// Returns a kind as it is in kcp and on the service cluster.
    fn kinds(&self, kind: &str) -> [Resource; 2] {
        self.offers.each_ref().map(|offer| offer.kind(kind).unwrap())
    }

    /// Imports a rule, and starts depguard with it.
    async fn guard(&mut self, side: &str, related: &[Value], more: &[&str]) {
        let [kcp, service] = self.kinds("Certificate");
        let published = json!({
            "apiVersion": SYNC_AGENT, "kind": "PublishedResource", "metadata": {"name": "certificates"},
            "spec": {
                "resource": {"apiGroup": service.group, "kind": "Certificate", "versions": ["v1alpha1"]},
                "projection": {"group": kcp.group}, "related": related,
            },
        });
        let crd = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/certificates.{}", service.group);
        let crd = self.offers[1].api.get(&crd).await.unwrap().ok().unwrap();
        let export = format!("{}={}", self.offers[0].export, self.offers[0].path);
        let args = [&["--side", side, "--export", &export], more].concat();
        let (rules, report) = imported(&[crd, published], &args).await;
        assert_eq!(rules.len(), 1, "{report:?}");
        let (world, offer) =
            if side == "kcp" { (&self.kcp, &self.offers[0]) } else { (&self.service, &self.offers[1]) };
        world.add_rule(offer, &rules[0]).await.unwrap();
        self.running.push(Depguard::start(world).await.unwrap());
    }

    /// Creates the certificate `shop`, and everything that belongs to it on both sides.
    async fn fill(&self) {
        let kcp = &self.agent.kcp;
        kcp.create(&self.kinds("Stamp")[0], "penny", json!({})).await.unwrap();
        let spec = json!({"secretName": "tls-secret", "stamp": "penny"});
        kcp.create(&self.agent.published.kcp, "shop", spec).await.unwrap();
        self.agent.passes("shop").await.unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls-secret"},
            "data": {"tls.key": "a2V5"}});
        let service = &self.agent.service;
        service
            .api
            .post(&self.agent.related[0].kind.service.collection(&service.namespace), &secret)
            .await
            .unwrap()
            .ok()
            .unwrap();
        // The issuer still has work to do when the copy is deleted.
        let issued = json!({"metadata": {"finalizers": ["issuer.example.com/revoke"]}});
        let copy = self.copy().await;
        service.api.merge(&service.object(&self.agent.published.service, &copy), &issued).await.unwrap().ok().unwrap();
        self.agent.passes("shop").await.unwrap();
    }

    /// Returns the name of the certificate's copy.
    async fn copy(&self) -> String {
        let shop = self.agent.kcp.api.get(&self.agent.kcp.object(&self.agent.published.kcp, "shop")).await.unwrap();
        self.agent.copy(&shop.ok().unwrap()).await.unwrap().name()
    }

    /// Runs the agent until the certificate is gone from kcp.
    async fn until_gone(&self) {
        let path = self.agent.kcp.object(&self.agent.published.kcp, "shop");
        eventually("the certificate is gone", self.kcp.patience(), async || {
            self.agent.pass("shop").await?;
            let reply = self.agent.kcp.api.get(&path).await?;
            if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
        })
        .await
        .unwrap();
    }

    /// Checks that no synced object has a mark of depguard.
    async fn is_unmarked(&self) {
        let mut seen = 0;
        for related in self.agent.related.iter().map(|related| &related.kind).chain([&self.agent.published]) {
            for (consumer, kind) in [(&self.agent.kcp, &related.kcp), (&self.agent.service, &related.service)] {
                let list = consumer.api.get(&kind.collection(&consumer.namespace)).await.unwrap().ok().unwrap();
                for object in list["items"].as_array().unwrap() {
                    let metadata = object["metadata"].to_string();
                    let ours = ["depguard", "dependencies.opendefense.cloud", "dependency-controller"];
                    assert!(!ours.iter().any(|word| metadata.contains(word)), "{metadata}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 6);
    }
}

/// The case of cert-manager: the Secret is made on the service cluster, and copied to the consumer.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_after_its_certificate_whoever_begins() {
    let mut scene = Scene::set().await;
    scene.guard("service-cluster", &[secret()], &[]).await;
    scene.fill().await;
    let (kcp, service) = (&scene.agent.kcp, &scene.agent.service);
    let [secrets, published] = [&scene.agent.related[0].kind, &scene.agent.published];
    let copy = scene.copy().await;
    service.until_protected(&scene.service, &secrets.service, "tls-secret").await.unwrap();
    scene.is_unmarked().await;

    // The agent writes the status back, and makes the Secret's copy anew.
    let status = json!({"ready": true});
    let path = service.object(&published.service, &copy);
    let mut current = service.api.get(&path).await.unwrap().ok().unwrap();
    current["status"] = status.clone();
    service.api.put(&format!("{path}/status"), &current).await.unwrap().ok().unwrap();
    kcp.delete(&scene.kcp, &secrets.kcp, "tls-secret").await.unwrap();
    scene.agent.passes("shop").await.unwrap();
    kcp.untouched(&secrets.kcp, "tls-secret").await.unwrap();
    let shop = kcp.api.get(&kcp.object(&published.kcp, "shop")).await.unwrap().ok().unwrap();
    assert_eq!(shop["status"], status);

    // The service cluster begins: it can't delete the Secret, and the agent makes the certificate's copy anew.
    let held = format!("still referenced by Certificate/{copy}");
    let refused = async || service.refused(&scene.service, &secrets.service, "tls-secret", &[&held]).await;
    refused().await.unwrap();
    service.api.delete(&path).await.unwrap().ok().unwrap();
    refused().await.unwrap();
    service.release(&published.service, &copy).await.unwrap();
    service.gone(&scene.service, &path).await.unwrap();
    scene.agent.passes("shop").await.unwrap();
    refused().await.unwrap();

    // The consumer begins: the deletion in kcp ends only after the one on the service cluster.
    let issued = json!({"metadata": {"finalizers": ["issuer.example.com/revoke"]}});
    service.api.merge(&path, &issued).await.unwrap().ok().unwrap();
    kcp.api.delete(&kcp.object(&published.kcp, "shop")).await.unwrap().ok().unwrap();
    eventually("the copy is on its way out", scene.service.patience(), async || {
        scene.agent.pass("shop").await?;
        let copy = service.api.get(&path).await?.ok()?;
        depguard_e2e::ensure(copy["metadata"]["deletionTimestamp"].is_string(), || copy.to_string())
    })
    .await
    .unwrap();
    scene.agent.passes("shop").await.unwrap();
    refused().await.unwrap();
    kcp.api.get(&kcp.object(&published.kcp, "shop")).await.unwrap().ok().unwrap();
    service.release(&published.service, &copy).await.unwrap();
    scene.until_gone().await;
    service.gone(&scene.service, &path).await.unwrap();
    service.delete(&scene.service, &secrets.service, "tls-secret").await.unwrap();
}

/// The kind is the APIExport's, and consumers make its objects: depguard is on both sides.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_consumer_brings_is_held_in_kcp_and_its_copy_goes_with_the_agent() {
    let mut scene = Scene::set().await;
    let related = [stamp(&scene)];
    scene.guard("service-cluster", &related, &[]).await;
    scene.guard("kcp", &related, &[]).await;
    scene.fill().await;
    let (kcp, service) = (&scene.agent.kcp, &scene.agent.service);
    let [stamps, published] = [&scene.agent.related[1].kind, &scene.agent.published];
    kcp.until_protected(&scene.kcp, &stamps.kcp, "penny").await.unwrap();
    scene.is_unmarked().await;

    // In kcp, the stamp can't be deleted while the certificate exists, even while the certificate is being deleted.
    let held = ["still referenced by Certificate/shop"];
    kcp.refused(&scene.kcp, &stamps.kcp, "penny", &held).await.unwrap();
    // A user who deletes the copy gets a warning, and the agent makes the copy anew.
    let path = service.object(&stamps.service, "penny");
    let warning = format!("still referenced by Certificate/{}", scene.copy().await);
    eventually("who deletes the copy is warned", scene.service.patience(), async || {
        let reply = service.api.dry_run_delete(&path).await?;
        let is_warned = reply.status == 200 && reply.warnings.iter().any(|said| said.contains(&warning));
        depguard_e2e::ensure(is_warned, || format!("{reply:?}"))
    })
    .await
    .unwrap();
    service.delete(&scene.service, &stamps.service, "penny").await.unwrap();
    scene.agent.passes("shop").await.unwrap();
    service.untouched(&stamps.service, "penny").await.unwrap();

    kcp.api.delete(&kcp.object(&published.kcp, "shop")).await.unwrap().ok().unwrap();
    kcp.refused(&scene.kcp, &stamps.kcp, "penny", &held).await.unwrap();
    service.release(&published.service, &scene.copy().await).await.unwrap();
    scene.until_gone().await;
    service.gone(&scene.service, &path).await.unwrap();
    kcp.delete(&scene.kcp, &stamps.kcp, "penny").await.unwrap();
}

/// This is the reason why rules only warn about copies.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_refused_a_copy_gets_no_further() {
    let mut scene = Scene::set().await;
    let related = [stamp(&scene)];
    scene.guard("service-cluster", &related, &["--copies", "deny"]).await;
    scene.fill().await;
    let (kcp, service) = (&scene.agent.kcp, &scene.agent.service);
    let [stamps, published] = [&scene.agent.related[1].kind, &scene.agent.published];
    service.until_protected(&scene.service, &stamps.service, "penny").await.unwrap();
    kcp.api.delete(&kcp.object(&published.kcp, "shop")).await.unwrap().ok().unwrap();
    for _ in 0..3 {
        let refused = scene.agent.pass("shop").await.unwrap_err().to_string();
        assert!(refused.contains("still referenced by Certificate/"), "{refused}");
    }
    let copy = scene.copy().await;
    service.untouched(&published.service, &copy).await.unwrap();

    // With the rule's default, the same deletion ends.
    let warn = json!({"spec": {"dependencies": [{
        "group": stamps.service.group, "version": "v1alpha1", "resource": "stamps", "onDelete": "Warn",
        "fieldRef": {"path": ".spec.stamp"},
    }]}});
    scene.service.change_rule(&scene.offers[1], "certificates", &warn).await.unwrap();
    service.until_free(&scene.service, &stamps.service, "penny").await.unwrap();
    service.release(&published.service, &copy).await.unwrap();
    scene.until_gone().await;
}
