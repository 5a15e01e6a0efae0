//! Stage of the acts: both API servers, and the provider that runs between them. It prints everything that it does.

mod setting;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube_client::core::DynamicObject;
use kube_client::core::params::{DeleteParams, PostParams};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::api::{Kind, Object};
use crate::platform::{Platform, requests};
use crate::workspaces::Workspaces;
use crate::{Error, Result, guard, provider};

use self::setting::Setting;

/// Time limit of every wait, generous so that a busy machine does not fail the play.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both API servers, with the provider running.
pub struct Stage {
    /// Platform cluster, as its administrator, who is also the provider here.
    pub platform: Arc<Platform>,
    /// Workspaces of the Clusters.
    pub workspaces: Arc<Workspaces>,
    setting: Setting,
    running: JoinHandle<Result<()>>,
    stop: CancellationToken,
}

impl Stage {
    pub(super) async fn set(platform: Option<&Path>, kcp: Option<&Path>) -> Result<Self> {
        let mut setting = Setting::new(platform, kcp).await?;
        let platform = Arc::new(setting.platform().await?);
        let workspaces = Arc::new(Workspaces::open(setting.kcp().await?)?);
        println!("# init brings the provider's own kind to the platform cluster, run starts the provider");
        setting.prepare(&platform).await?;
        provider::init(&platform).await?;
        let stop = CancellationToken::new();
        let running = provider::run(
            platform.clone(),
            workspaces.clone(),
            guard::Options::default(),
            setting.token_lifetime(),
            stop.clone(),
        );
        Ok(Self { platform, workspaces, setting, running: tokio::spawn(running), stop })
    }

    /// Returns the namespace of the play's objects on the platform cluster.
    pub fn namespace(&self) -> String {
        self.setting.namespace().to_owned()
    }

    /// Returns the name for a cluster-scoped object, unique on a server that is not the play's own.
    pub fn named(&self, name: &str) -> String {
        self.setting.named(name)
    }

    /// Returns the lifetime of a kubeconfig's token.
    pub fn token_lifetime(&self) -> Duration {
        self.setting.token_lifetime()
    }

    /// Prints the title of the next act.
    pub fn title(&self, title: &str) {
        println!("\n# {title}");
    }

    /// Prints a line of the transcript.
    pub fn show(&self, line: &str) {
        println!("{line}");
    }

    /// Creates an object as soon as its kind is served.
    pub async fn create<K: Kind>(&self, object: Object<K>) -> Result<()> {
        let doing = format!("make {}", object.shown());
        let body =
            serde_json::to_vec(&object).map_err(|error| Error::api(&doing)(kube_client::Error::SerdeError(error)))?;
        self.eventually(&doing, async || {
            let request = requests::<K>(object.namespace()).create(&PostParams::default(), body.clone());
            match self.send(&doing, request).await {
                Err(error) if error.status() == Some(404) => Ok(None),
                other => other.map(Some),
            }
        })
        .await?;
        self.show(&format!("made {}", object.shown()));
        Ok(())
    }

    /// Deletes an object.
    pub async fn delete<K: Kind>(&self, namespace: &str, name: &str) -> Result<()> {
        let object = self.there::<K>(namespace, name).await?;
        self.try_deletion(&object, false).await?;
        self.show(&format!("deleted {}", object.shown()));
        Ok(())
    }

    /// Deletes an object without printing, maybe as a dry run.
    pub async fn try_deletion<K: Kind>(&self, object: &Object<K>, dry_run: bool) -> Result<()> {
        let parameters = DeleteParams { dry_run, ..DeleteParams::default() };
        let request = requests::<K>(object.namespace()).delete(object.name(), &parameters);
        self.send(&format!("delete {}", object.shown()), request).await?;
        Ok(())
    }

    /// Returns an object that must exist.
    pub async fn there<K: Kind>(&self, namespace: &str, name: &str) -> Result<Object<K>> {
        let found = self.platform.find::<K>(namespace, name).await?;
        found.ok_or_else(|| Error::Refused(format!("{} `{name}` does not exist", K::KIND)))
    }

    /// Waits until an object is gone.
    pub async fn await_gone<K: Kind>(&self, namespace: &str, name: &str) -> Result<()> {
        let what = format!("{} `{name}` is gone", K::KIND);
        self.eventually(&what, async || match self.platform.find::<K>(namespace, name).await? {
            Some(_) => Ok(None),
            None => Ok(Some(())),
        })
        .await?;
        self.show(&what);
        Ok(())
    }

    /// Waits until an object's status has this phase, and shows its conditions.
    pub async fn await_phase<K: Kind>(&self, namespace: &str, name: &str, phase: &str) -> Result<Object<K>> {
        let reached = |status: &Value| status["phase"] == phase;
        self.await_status(namespace, name, &format!("in phase {phase}"), reached).await
    }

    /// Waits until an object's condition has this reason, and shows its conditions.
    pub async fn await_reason<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        condition: &str,
        reason: &str,
    ) -> Result<Object<K>> {
        let reached = |status: &Value| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.any(|found| found["type"] == condition && found["reason"] == reason)
        };
        self.await_status(namespace, name, &format!("{condition} because of {reason}"), reached).await
    }

    async fn await_status<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        reached: impl Fn(&Value) -> bool,
    ) -> Result<Object<K>> {
        let mut last = Value::Null;
        let what = format!("{} `{name}` is {what}", K::KIND);
        let found = self.eventually(&what, async || {
            let found = self.there::<K>(namespace, name).await?;
            last = serde_json::to_value(&found.status).unwrap_or_default();
            // A status of an older generation tells nothing about the present spec.
            let is_of_now = last["observedGeneration"] == found.generation();
            Ok((is_of_now && reached(&last)).then_some(found))
        });
        let found = found.await;
        match &found {
            Ok(found) => self.show(&format!("{} is {}:", found.shown(), last["phase"].as_str().unwrap_or("?"))),
            Err(_) => self.show(&format!("{} `{name}` only says:", K::KIND)),
        }
        for condition in last["conditions"].as_array().into_iter().flatten() {
            let text = |field: &str| condition[field].as_str().unwrap_or("?").to_owned();
            let message = Some(text("message")).filter(|message| !message.is_empty());
            let message = message.map_or(String::new(), |message| format!(": {message}"));
            self.show(&format!("  {}={} {}{message}", text("type"), text("status"), text("reason")));
        }
        found
    }

    /// Waits until there is a result.
    pub async fn eventually<T>(&self, what: &str, attempt: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
        self.within(PATIENCE, what, attempt).await
    }

    /// Waits likewise for a result that takes as long as a token lives.
    pub async fn after_a_token<T>(&self, what: &str, attempt: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
        self.within(PATIENCE + self.token_lifetime(), what, attempt).await
    }

    async fn within<T>(
        &self,
        patience: Duration,
        what: &str,
        mut attempt: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = attempt().await? {
                return Ok(found);
            }
            if self.running.is_finished() {
                return Err(Error::Refused(format!("the provider ended before: {what}")));
            }
            if begun.elapsed() > patience {
                return Err(Error::Refused(format!("timed out after {} s, waiting for: {what}", patience.as_secs())));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends the provider, and everything that the play itself started.
    pub(super) async fn close(self, is_clean: bool) -> Result<()> {
        let swept = if is_clean { self.setting.sweep(&self.platform).await } else { Ok(()) };
        if let (false, Some(leftovers)) = (is_clean, self.setting.leftovers()) {
            println!("{leftovers}");
        }
        self.stop.cancel();
        let ended = self.running.await;
        // The configuration stays when a provider ends, or deletions would pass while the provider is away. Here the
        // provider stays away.
        let removed = guard::remove(&self.platform).await;
        self.setting.stop().await;
        swept.and(removed)?;
        ended.map_err(|error| Error::Refused(format!("the provider ended with an error: {error}")))?
    }

    async fn send(
        &self,
        doing: &str,
        request: Result<http::Request<Vec<u8>>, kube_client::core::request::Error>,
    ) -> Result<DynamicObject> {
        let request = request.map_err(|error| Error::api(doing)(kube_client::Error::BuildRequest(error)))?;
        self.platform.client().request(request).await.map_err(Error::api(doing))
    }
}

/// Formats a value in one line.
pub(super) fn outline(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
