//! A real kcp, one shard with its embedded etcd.

use std::path::Path;
use std::time::Duration;

use super::process::{Processes, free_port};
use super::{Access, Ring, Servers};
use crate::outcome::{Outcome, eventually};
use crate::selection::RingKind;

const TOKENS: &str = r#"admin-token,kcp-admin,1,"system:kcp:admin"
tenant-token,tenant,2,""
masters-token,masters,3,"system:masters"
"#;

pub(super) async fn start(kind: RingKind, kcp: &Path) -> Outcome<Ring> {
    let mut servers = Processes::new()?;
    std::fs::write(servers.file("tokens.csv"), TOKENS)?;
    let port = free_port()?;
    let root = servers.file("kcp");
    servers.spawn(
        kcp,
        &[
            "start".to_owned(),
            format!("--root-directory={}", root.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--embedded-etcd-client-port={}", free_port()?),
            format!("--embedded-etcd-peer-port={}", free_port()?),
            format!("--token-auth-file={}", servers.file("tokens.csv").display()),
        ],
    )?;
    // kcp makes its own certificate, which is its own authority.
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
