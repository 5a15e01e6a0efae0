//! Client configurations by which API servers call the webhook, kept up to date with the files that are part of them.

use std::future::pending;
use std::sync::Arc;

use depguard_core::ControlPlane;
use depguard_core::api::FailurePolicy;
use depguard_core::interlock::Generation;
use depguard_kcp::{PathKey, PathKeyError, REREAD, WatchedFile};
use futures::future::OptionFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::model::install_place::InstallPlace;
use crate::model::reference_configuration;
use crate::model::webhook_configuration::ClientConfigs;
use crate::model::webhook_target::{PATH, WebhookTarget};
use crate::runtime::ca_bundle::{self, CaBundle};
use crate::runtime::metrics::Metrics;
use crate::runtime::start_error::StartError;

/// Facts from which the client configuration of each place is made.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    pub(crate) target: WebhookTarget,
    /// Certificates as PEM.
    pub(crate) ca_bundle: Option<Arc<[u8]>>,
    /// Key that signs the path of each place.
    pub(crate) key: Option<PathKey>,
    /// depguard's own namespace, in plain Kubernetes.
    pub(crate) own_namespace: Option<String>,
    /// Generation of the reference registers, which the paths for rules with `failurePolicy: Fail` name.
    pub(crate) generation: Option<Generation>,
    /// Key that signs the paths with the generation.
    pub(crate) generation_key: Option<PathKey>,
}

impl Clients {
    /// Returns the client configurations of a place.
    pub(crate) fn at(&self, place: &InstallPlace) -> ClientConfigs {
        let client = |policy, generation| {
            let suffix = self.suffix(place, generation);
            self.target.client_config(policy, &suffix, self.ca_bundle.as_deref())
        };
        ClientConfigs {
            fail: client(FailurePolicy::Fail, self.generation),
            ignore: client(FailurePolicy::Ignore, None),
            own_namespace: self.own_namespace.clone(),
        }
    }

    /// Returns the client configurations of a place for reviews of references.
    pub(crate) fn for_references(&self, place: &InstallPlace) -> ClientConfigs {
        ClientConfigs {
            fail: self.beside_with(place, reference_configuration::PATH, self.generation),
            ignore: self.beside(place, reference_configuration::IGNORE_PATH),
            own_namespace: self.own_namespace.clone(),
        }
    }

    /// Returns the client configuration of a place for another path than that for rules, beside it: `/lock`.
    pub(crate) fn beside(&self, place: &InstallPlace, path: &str) -> Value {
        self.beside_with(place, path, None)
    }

    fn beside_with(&self, place: &InstallPlace, path: &str, generation: Option<Generation>) -> Value {
        let suffix = self.suffix(place, generation);
        let at = |rules: &str| {
            let rules = rules.trim_end_matches('/');
            format!("{}{path}{suffix}", rules.strip_suffix(PATH).unwrap_or(rules))
        };
        self.target.client_config_at(at, self.ca_bundle.as_deref())
    }

    /// Returns the end of a path: the generation, and the scope of the place with its signature.
    fn suffix(&self, place: &InstallPlace, generation: Option<Generation>) -> String {
        let segment = generation.map(|generation| format!("/{}", generation.to_segment())).unwrap_or_default();
        let of_generation = self.generation_key.as_ref().filter(|_| generation.is_some());
        match of_generation.or(self.key.as_ref()) {
            Some(key) => key.suffix_after(&segment, place.as_ref()),
            None => segment,
        }
    }
}

/// Watch on the files. Everybody who installs uses the clients that it publishes, so that no two differ.
pub(crate) struct ClientConfigWatch {
    ca_bundle: Option<CaBundle>,
    path_key: Option<WatchedFile<PathKey, PathKeyError>>,
    clients: watch::Sender<Clients>,
}

impl ClientConfigWatch {
    /// Reads the files for the first time. The receiver shows the clients, and each change of them.
    pub(crate) async fn open(
        config: &Config,
        metrics: &Metrics,
    ) -> Result<(Self, watch::Receiver<Clients>), StartError> {
        let reloads = (metrics.reload("ca-bundle"), metrics.reload("path-key"));
        let ca_bundle = match &config.ca_bundle_path {
            Some(path) => Some(ca_bundle::open(path.clone(), reloads.0).await?),
            None => None,
        };
        let path_key = match &config.path_key {
            Some(path) => Some(PathKey::open(path.clone(), reloads.1).await?),
            None => None,
        };
        let (clients, receiver) = watch::channel(Clients {
            target: config.webhook.clone(),
            ca_bundle: ca_bundle.as_ref().map(|file| Arc::clone(file.current())),
            key: path_key.as_ref().map(|file| file.current().clone()),
            own_namespace: (config.control_plane == ControlPlane::Kubernetes).then(|| config.namespace.clone()),
            generation: None,
            generation_key: None,
        });
        Ok((Self { ca_bundle, path_key, clients }, receiver))
    }

    /// Publishes each change, for as long as it is polled. Never ends, even if there are no files to follow.
    pub(crate) async fn run(self) {
        let clients = &self.clients;
        let ca_bundle = self.ca_bundle.map(|file| {
            file.follow(REREAD, |pem| clients.send_modify(|clients| clients.ca_bundle = Some(Arc::clone(pem))))
        });
        let path_key = self
            .path_key
            .map(|file| file.follow(REREAD, |key| clients.send_modify(|clients| clients.key = Some(key.clone()))));
        tokio::join!(OptionFuture::from(ca_bundle), OptionFuture::from(path_key));
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster;
    use serde_json::json;

    #[test]
    fn what_is_asked_beside_rules_has_a_path_beside_theirs() {
        let key = PathKey::parse("0123456789abcdef0123456789abcdef").unwrap();
        for (target, key, expected) in [
            ("https://host/validate", None, "https://host/lock"),
            ("https://host/depguard/validate/", None, "https://host/depguard/lock"),
            ("https://host", None, "https://host/lock"),
            ("https://host/validate", Some(&key), &*format!("https://host/lock{}", key.suffix(None))),
        ] {
            let target = WebhookTarget::Url(target.to_owned());
            let clients = Clients {
                target,
                ca_bundle: None,
                key: key.cloned(),
                own_namespace: None,
                generation: None,
                generation_key: None,
            };
            assert_eq!(clients.beside(&None, "/lock"), json!({"url": expected}));
        }
        let clients = Clients {
            target: "a/b".parse().unwrap(),
            ca_bundle: None,
            key: None,
            own_namespace: None,
            generation: None,
            generation_key: None,
        };
        assert_eq!(clients.beside(&None, "/lock/compat")["service"]["path"], "/lock/compat");
    }

    #[test]
    fn with_a_key_each_place_is_told_a_path_of_its_own() {
        let key = PathKey::parse("0123456789abcdef0123456789abcdef").unwrap();
        let clients = |target: WebhookTarget| Clients {
            target,
            ca_bundle: None,
            key: Some(key.clone()),
            own_namespace: None,
            generation: None,
            generation_key: None,
        };
        let (one, other) = (Some(cluster("2x3fg5w1ik2mcnev")), Some(cluster("3y3fg5w1ik2mcnev")));
        for url in ["https://host/validate", "https://host/validate/"] {
            let clients = clients(WebhookTarget::Url(url.to_owned()));
            let suffix = key.suffix(one.as_ref());
            let ClientConfigs { fail, ignore, .. } = clients.at(&one);
            assert_eq!(fail["url"], format!("https://host/validate{suffix}"));
            assert_eq!(ignore["url"], format!("https://host/validate/ignore{suffix}"));
            assert_ne!(clients.at(&other).fail, fail);
        }
        let service = clients("a/b".parse().unwrap()).at(&None).fail;
        assert_eq!(service["service"]["path"], format!("/validate{}", key.suffix(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_either_file_is_shown_and_leaves_the_other_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| folder.path().join(name);
        let pem = |content: &str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
        let keys = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
        std::fs::write(file("ca.crt"), pem("QQ==")).unwrap();
        std::fs::write(file("key"), keys[0]).unwrap();
        let export_name = depguard_core::ExportName::parse("a").unwrap();
        let config = Config {
            ca_bundle_path: Some(file("ca.crt")),
            path_key: Some(file("key")),
            ..Config::new(ControlPlane::Kubernetes, export_name, "hooks/depguard".parse().unwrap())
        };
        let (following, mut clients) = ClientConfigWatch::open(&config, &Metrics::default()).await.unwrap();
        let following = tokio::spawn(following.run());
        let shown = |clients: &Clients| {
            let suffix = clients.key.as_ref().unwrap().suffix(None);
            (clients.ca_bundle.as_deref().unwrap().to_vec(), suffix, clients.own_namespace.clone().unwrap())
        };
        let expected =
            |content, key| (pem(content).into_bytes(), PathKey::parse(key).unwrap().suffix(None), "hooks".to_owned());
        assert_eq!(shown(&clients.borrow()), expected("QQ==", keys[0]));
        std::fs::write(file("ca.crt"), pem("Qg==")).unwrap();
        clients.changed().await.unwrap();
        assert_eq!(shown(&clients.borrow()), expected("Qg==", keys[0]));
        std::fs::write(file("key"), keys[1]).unwrap();
        clients.changed().await.unwrap();
        assert_eq!(shown(&clients.borrow()), expected("Qg==", keys[1]));
        following.abort();
    }

    /// A receiver would take the end of the task for the end of everything.
    #[tokio::test(start_paused = true)]
    async fn without_files_it_is_shown_for_as_long_as_somebody_looks() {
        let export_name = depguard_core::ExportName::parse("a").unwrap();
        let config =
            Config::new(ControlPlane::Kcp, export_name, WebhookTarget::Url("https://host/validate".to_owned()));
        let (following, clients) = ClientConfigWatch::open(&config, &Metrics::default()).await.unwrap();
        let following = tokio::spawn(following.run());
        tokio::time::sleep(REREAD * 100).await;
        assert!(!following.is_finished() && clients.has_changed().is_ok());
        assert!(clients.borrow().own_namespace.is_none());
        following.abort();
    }
}
