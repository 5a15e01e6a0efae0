//! Client that deletes: some deletions are allowed, some are refused, some are about kinds that no rule names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use depguard_faults::Pair;
use depguard_kcp::{Endpoint, Preconditions};
use futures::future::try_join_all;
use http::Request;
use serde_json::json;

use crate::Result;
use crate::child::Child;
use crate::watch::ProcessUsage;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAMESPACE: &str = "default";
/// Number of targets of each kind that stay referenced.
const HELD: usize = 20;
/// Maximum of errors that are reported.
const TOLD: usize = 5;

/// Results of the deletions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) unrelated: u64,
    /// Number of deletions with a wrong result, and the first few errors.
    pub(crate) wrong: u64,
    pub(crate) errors: Vec<String>,
    /// CPU time of the webhook.
    pub(crate) cpu: Duration,
    /// Peak of the webhook's memory, in bytes.
    pub(crate) peak: u64,
}

pub(crate) struct Scene {
    scene: depguard_faults::Scene,
    webhook: Child,
    next: AtomicU64,
}

impl Scene {
    pub(crate) async fn start(dependents: usize) -> Result<Self> {
        let mut scene = depguard_faults::Scene::prepare(dependents).await?;
        let arguments = [
            "guard".to_owned(),
            format!("--kubeconfig={}", scene.kubeconfig().display()),
            format!("--certificates={}", scene.certificates().display()),
            format!("--port={}", scene.port()),
        ];
        let (webhook, _) = Child::start(&arguments[0], &arguments[1..]).await?;
        scene.start_controller().await?;
        scene.until_guarded().await?;
        // Deletions of dependents are reviewed too, though no rule names them as targets.
        let certificate = std::fs::read(scene.certificates().join("tls.crt"))?;
        let unrelated = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "unrelated"},
            "webhooks": [{
                "name": "unrelated.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/validate", scene.port()),
                    "caBundle": STANDARD.encode(certificate),
                },
                "rules": [{
                    "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["machines"],
                }],
            }],
        });
        scene.dependents_provider().post_json(CONFIGURATIONS, &unrelated).await?;
        for pair in Pair::ALL {
            for n in 0..HELD {
                let (target, dependent) = (format!("held-{n}"), format!("holds-{n}"));
                scene.tenant.post_json(&pair.targets_in(NAMESPACE), &pair.make_target(&target)).await?;
                let dependent = pair.make_dependent(&dependent, Pair::REF, &target);
                scene.tenant.post_json(&pair.dependents_in(NAMESPACE), &dependent).await?;
            }
            scene.tenant.post_json(&pair.targets_in(NAMESPACE), &pair.make_target("free")).await?;
        }
        Ok(Self { scene, webhook, next: AtomicU64::new(0) })
    }

    /// Deletes for this time, and samples each second what the webhook holds.
    pub(crate) async fn delete_for(
        &mut self,
        time: Duration,
        at_once: usize,
        samples: &mut Vec<ProcessUsage>,
    ) -> Result<Counts> {
        let until = Instant::now() + time;
        self.webhook.usage().reset_peak()?;
        let cpu = self.webhook.usage().cpu()?;
        let (tenant, next) = (&self.scene.tenant, &self.next);
        let workers = (0..at_once).map(|_| async move {
            let mut counts = Counts::default();
            while Instant::now() < until {
                delete(tenant, next.fetch_add(1, Ordering::Relaxed), &mut counts).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(counts)
        });
        let webhook = &mut self.webhook;
        let looking = async {
            while Instant::now() < until {
                samples.push(ProcessUsage::from_process(webhook).await?);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        };
        let (each, ()) = tokio::try_join!(try_join_all(workers), looking)?;
        let mut counts = Counts::default();
        for one in each {
            counts.allowed += one.allowed;
            counts.denied += one.denied;
            counts.unrelated += one.unrelated;
            counts.wrong += one.wrong;
            counts.errors.extend(one.errors);
        }
        counts.errors.truncate(TOLD);
        counts.cpu = self.webhook.usage().cpu()?.saturating_sub(cpu);
        counts.peak = self.webhook.usage().peak()?;
        Ok(counts)
    }

    /// Returns what the webhook holds after it was idle for a while.
    pub(crate) async fn idle(&mut self) -> Result<ProcessUsage> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        ProcessUsage::from_process(&mut self.webhook).await
    }

    pub(crate) async fn stop(self) -> Result {
        drop(self.webhook);
        self.scene.stop().await;
        Ok(())
    }
}

/// Makes the `n`th deletion. One in six is carried out, on an object that is made for it; the others are dry runs.
async fn delete(tenant: &Endpoint, n: u64, counts: &mut Counts) -> Result {
    let pair = Pair::ALL[(n / 6) as usize % Pair::ALL.len()];
    let targets = pair.targets_in(NAMESPACE);
    let (what, went) = match n % 6 {
        0 => {
            let name = format!("free-{n}");
            tenant.post_json(&targets, &pair.make_target(&name)).await?;
            let path = format!("{targets}/{name}");
            let went = tenant.delete(&path, Preconditions::default()).await.map(drop).map_err(|why| why.to_string());
            counts.allowed += u64::from(went.is_ok());
            (path, went)
        }
        1 | 3 => {
            let path = format!("{targets}/free");
            let went = dry(tenant, &path).await;
            counts.allowed += u64::from(went.is_ok());
            (path, went)
        }
        5 => {
            let path = format!("{}/holds-0", Pair::Vpc.dependents_in(NAMESPACE));
            let went = dry(tenant, &path).await;
            counts.unrelated += u64::from(went.is_ok());
            (path, went)
        }
        _ => {
            let path = format!("{targets}/held-{}", n as usize % HELD);
            let refused = match dry(tenant, &path).await {
                Err(why) if why.contains("still referenced by") => Ok(()),
                Err(why) => Err(why),
                Ok(()) => Err("the deletion was allowed".to_owned()),
            };
            counts.denied += u64::from(refused.is_ok());
            (path, refused)
        }
    };
    if let Err(why) = went {
        counts.wrong += 1;
        if counts.errors.len() < TOLD {
            counts.errors.push(format!("{what}: {why}"));
        }
    }
    Ok(())
}

/// Deletes as a dry run: the deletion is reviewed, but not carried out.
async fn dry(tenant: &Endpoint, path: &str) -> std::result::Result<(), String> {
    let request = Request::delete(format!("{path}?dryRun=All")).body(Bytes::new()).map_err(|why| why.to_string())?;
    let response = tenant.send(request).await.map_err(|why| why.to_string())?;
    if response.status().is_success() { Ok(()) } else { Err(String::from_utf8_lossy(response.body()).into_owned()) }
}
