//! Another kube-apiserver on the etcd of a ring.

use std::net::Ipv4Addr;
use std::time::Duration;

use depguard_testbed::lasting_port;

use super::Ring;
use crate::api::Api;
use crate::outcome::{Outcome, eventually};

/// Name of the ring's first API server.
const FIRST: &str = "kube-apiserver";
const SECOND: &str = "second-kube-apiserver";

/// A second kube-apiserver on a ring's etcd. It ends when this is dropped.
pub struct SecondApiServer<'a> {
    ring: &'a Ring,
    url: String,
}

impl Ring {
    /// Starts a second kube-apiserver, and waits until it is ready.
    pub async fn second_api_server(&self) -> Outcome<SecondApiServer<'_>> {
        let port = lasting_port(Ipv4Addr::LOCALHOST)?;
        let own = [format!("--secure-port={port}"), "--audit-log-path=second-audit.log".to_owned()];
        self.processes()?.spawn_like(FIRST, SECOND, &own)?;
        let second = SecondApiServer { ring: self, url: format!("https://127.0.0.1:{port}") };
        let admin = second.admin().await?;
        eventually("the second API server is ready", Duration::from_secs(90), async || {
            admin.get("/readyz").await?.ok().map(drop)
        })
        .await?;
        Ok(second)
    }
}

impl SecondApiServer<'_> {
    /// Opens a new client of the administrator.
    pub async fn admin(&self) -> Outcome<Api> {
        Api::open(&self.ring.access.kubeconfig_at(&self.url, "", &self.ring.access.admin_token)).await
    }

    /// Lets the server stand still: connections are accepted, and nobody answers.
    pub fn suspend(&self) -> Outcome {
        self.ring.processes()?.suspend(SECOND)
    }

    /// Lets the server go on.
    pub fn resume(&self) -> Outcome {
        self.ring.processes()?.resume(SECOND)
    }
}

impl Drop for SecondApiServer<'_> {
    fn drop(&mut self) {
        if let Err(stop) = self.ring.processes().and_then(|processes| processes.end(SECOND)) {
            println!("ring {}: the second API server stays: {stop}", self.ring.kind().name());
        }
    }
}
