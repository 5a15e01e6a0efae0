//! A real kcp: one shard with its embedded etcd.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use depguard_testbed::lasting_port;

use super::process::Processes;
use super::{Access, Ring, Servers};
use crate::outcome::{Outcome, eventually};
use crate::selection::RingKind;

const TOKENS: &str = r#"admin-token,kcp-admin,1,"system:kcp:admin"
tenant-token,tenant,2,""
masters-token,masters,3,"system:masters"
"#;

/// Folder that kcp writes to.
const ROOT: &str = "kcp";

impl Ring {
    /// Returns the kubeconfig that a kcp of one shard writes for the shard's administrator.
    pub fn shard_kubeconfig(&self) -> Outcome<PathBuf> {
        Ok(self.processes()?.file(ROOT).join("admin.kubeconfig"))
    }
}

pub(super) async fn start(kind: RingKind, kcp: &Path) -> Outcome<Ring> {
    let servers = Processes::new()?;
    std::fs::write(servers.file("tokens.csv"), TOKENS)?;
    let port = lasting_port(Ipv4Addr::LOCALHOST)?;
    let root = servers.file(ROOT);
    servers.spawn(
        kcp,
        &[
            "start".to_owned(),
            format!("--root-directory={}", root.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--embedded-etcd-client-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
            format!("--embedded-etcd-peer-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
            format!("--token-auth-file={}", servers.file("tokens.csv").display()),
        ],
    )?;
    // kcp makes its own self-signed certificate.
    let certificate = root.join("apiserver.crt");
    let ca_pem = eventually("kcp writes its certificate", Duration::from_secs(60), async || {
        Ok(std::fs::read_to_string(&certificate)?)
    })
    .await
    .map_err(|stop| servers.explain(&stop))?;
    let url = format!("https://127.0.0.1:{port}");
    let access = Access::new(url, &ca_pem, ["admin-token", "tenant-token", "masters-token"])?;
    Ring::open(kind, access, Servers::Processes(servers)).await
}
