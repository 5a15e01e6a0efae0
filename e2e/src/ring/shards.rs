//! A real kcp of two shards with its front-proxy and its cache-server. Each is a process, and each shard has a host of
//! its own.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use depguard_testbed::lasting_port;
use rcgen::KeyPair;
use serde_json::json;

use super::process::Processes;
use super::{Access, Ring, Servers};
use crate::api::Api;
use crate::certificate::Authority;
use crate::outcome::{Outcome, Stop, ensure, eventually};
use crate::selection::{RingKind, ShardPrograms};

/// Users of all shards. The front-proxy forwards their tokens, and each shard knows the tokens.
const TOKENS: &str = r#"admin-token,kcp-admin,1,"system:kcp:admin"
tenant-token,tenant,2,""
masters-token,masters,3,"system:masters"
"#;
const MASTERS_TOKEN: &str = "masters-token";

const SHARDS: &str = "/clusters/root/apis/core.kcp.io/v1alpha1/shards";

/// Time to start two shards and the front-proxy on a busy machine.
const START: Duration = Duration::from_secs(240);

/// One shard: a kcp process with its own store.
#[derive(Clone, Debug)]
pub struct Shard {
    name: &'static str,
    host: &'static str,
    url: String,
}

impl Shard {
    /// Name of the shard with the workspace `root`.
    pub const ROOT: &'static str = "root";
    /// Name of the other shard.
    pub const BETA: &'static str = "beta";
    /// Label of a Shard with the shard's name; a Workspace selects its shard by this label.
    pub(crate) const LABEL: &'static str = "e2e.depguard/shard";

    /// Returns the shard's name, in kcp and of the process.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the host of the shard's virtual workspaces, without a port.
    pub fn host(&self) -> &'static str {
        self.host
    }
}

/// Outage of a shard; the shard comes back when this is dropped.
pub struct Outage<'a> {
    ring: &'a Ring,
    shard: &'static str,
    is_killed: bool,
}

impl Outage<'_> {
    /// Brings the shard back and waits until it serves.
    pub async fn end(self) -> Outcome {
        let (ring, shard) = (self.ring, self.shard);
        drop(self);
        let api = ring.masters_of_shard(shard).await?;
        eventually(&format!("shard {shard} is back"), ring.patience(), async || {
            api.get("/readyz").await?.ok().map(drop)
        })
        .await
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        let Servers::Processes(processes) = &self.ring.servers else { return };
        let back = if self.is_killed { processes.start_again(self.shard) } else { processes.resume(self.shard) };
        if let Err(stop) = back {
            println!("ring {}: shard {} stays away: {stop}", self.ring.kind().name(), self.shard);
        }
    }
}

impl Ring {
    /// Returns the shards that run as processes of their own; none on a ring with one server.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Suspends a shard: it accepts connections and answers none.
    pub fn suspend_shard(&self, name: &'static str) -> Outcome<Outage<'_>> {
        self.processes()?.suspend(name)?;
        Ok(Outage { ring: self, shard: name, is_killed: false })
    }

    /// Kills a shard's process, as a crash would.
    pub fn kill_shard(&self, name: &'static str) -> Outcome<Outage<'_>> {
        self.processes()?.kill(name)?;
        Ok(Outage { ring: self, shard: name, is_killed: true })
    }

    /// Opens a client of a member of `system:masters` at each shard itself, or at the one server of a ring without
    /// shards.
    pub(crate) async fn masters_of_shards(&self) -> Outcome<Vec<Api>> {
        if self.shards.is_empty() {
            return Ok(vec![self.masters().await?]);
        }
        futures::future::try_join_all(self.shards.iter().map(|shard| self.masters_of_shard(shard.name))).await
    }

    /// Opens a client of a member of `system:masters` at the shard with this name.
    pub(crate) async fn masters_of_shard(&self, name: &str) -> Outcome<Api> {
        let found = self.shards.iter().find(|shard| shard.name == name);
        let shard = found.ok_or_else(|| Stop::Failed(format!("there is no shard {name}")))?;
        Api::open(&self.access.kubeconfig_at(&shard.url, "", MASTERS_TOKEN)).await
    }
}

/// Certificate authorities of a kcp of several shards.
struct Authorities {
    /// Signs the certificates of servers.
    serving: Authority,
    /// Signs the client certificates of those who call a shard or the front-proxy.
    clients: Authority,
    /// Signs the client certificate of the front-proxy, which may say on whose behalf it calls.
    front_proxy: Authority,
}

/// The programs to start, their addresses, and the processes already started.
struct Setup<'a> {
    servers: Processes,
    programs: &'a ShardPrograms,
    front_proxy_url: String,
    cache_port: u16,
    shards: Vec<Shard>,
}

pub(super) async fn start(kind: RingKind, programs: &ShardPrograms) -> Outcome<Ring> {
    let front_proxy_port = lasting_port(Ipv4Addr::LOCALHOST)?;
    let mut shards = Vec::new();
    for (name, host) in [(Shard::ROOT, "127.0.1.1"), (Shard::BETA, "127.0.1.2")] {
        shards.push(Shard { name, host, url: format!("https://{host}:{}", lasting_port(host.parse::<IpAddr>()?)?) });
    }
    let mut setup = Setup {
        servers: Processes::new()?,
        programs,
        front_proxy_url: format!("https://127.0.0.1:{front_proxy_port}"),
        cache_port: lasting_port(Ipv4Addr::LOCALHOST)?,
        shards,
    };
    let ca_pem = setup.write_files()?;
    setup.start_cache_server()?;
    setup.start_shards()?;
    setup.until_shards_serve(&ca_pem).await.map_err(|stop| setup.servers.explain(&stop))?;
    setup.start_front_proxy(front_proxy_port)?;

    let access = Access::new(setup.front_proxy_url, &ca_pem, ["admin-token", "tenant-token", MASTERS_TOKEN])?;
    let mut ring = Ring::open(kind, access, Servers::Processes(setup.servers)).await?;
    ring.shards = setup.shards;
    match label_shards(&ring).await {
        Ok(()) => Ok(ring),
        Err(stop) => Err(ring.processes()?.explain(&stop)),
    }
}

/// Waits until each shard is registered, and gives it the label by which workspaces select it.
async fn label_shards(ring: &Ring) -> Outcome {
    let masters = ring.masters_of_shard(Shard::ROOT).await?;
    for shard in ring.shards() {
        let label = json!({"metadata": {"labels": {Shard::LABEL: shard.name}}});
        eventually(&format!("shard {} is registered", shard.name), ring.patience(), async || {
            masters.merge(&format!("{SHARDS}/{}", shard.name), &label).await?.ok().map(drop)
        })
        .await?;
    }
    let admin = ring.admin().await?;
    eventually("the front-proxy leads to root", ring.patience(), async || {
        let shards = admin.get(SHARDS).await?.ok()?;
        let found = shards["items"].as_array().map_or(0, Vec::len);
        ensure(found == ring.shards().len(), || format!("there are {found} shards"))
    })
    .await
}

impl Setup<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.servers.file(name)
    }

    /// Builds `--<flag>=<file of the folder>`.
    fn at(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}", self.path(file).display())
    }

    /// Writes certificates, tokens and kubeconfigs; returns the certificate of the authority that signs the servers'
    /// certificates.
    fn write_files(&self) -> Outcome<String> {
        let authorities = Authorities {
            serving: Authority::new("kcp e2e serving")?,
            clients: Authority::new("kcp e2e clients")?,
            front_proxy: Authority::new("kcp e2e front-proxy")?,
        };
        let Authorities { serving, clients, front_proxy } = &authorities;
        std::fs::write(self.path("serving-ca.crt"), serving.pem())?;
        std::fs::write(self.path("client-ca.crt"), clients.pem())?;
        std::fs::write(self.path("requestheader-ca.crt"), front_proxy.pem())?;
        serving.issue_server(&["127.0.0.1", "localhost"], &self.path("local"))?;
        for shard in &self.shards {
            serving.issue_server(&[shard.host, "localhost"], &self.path(shard.name))?;
        }
        front_proxy.issue_client("kcp-front-proxy", "kcp", &self.path("requestheader"))?;
        for (user, group) in [
            ("masters", "system:masters"),
            ("logical-cluster-admin", "system:kcp:logical-cluster-admin"),
            ("external-logical-cluster-admin", "system:kcp:external-logical-cluster-admin"),
        ] {
            clients.issue_client(user, group, &self.path(user))?;
        }
        // All shards verify ServiceAccount tokens with this key.
        let accounts = KeyPair::generate()?;
        std::fs::write(self.path("accounts.key"), accounts.serialize_pem())?;
        std::fs::write(self.path("accounts.pub"), accounts.public_key_pem())?;
        std::fs::write(self.path("tokens.csv"), TOKENS)?;

        let root = self.shards.first().map_or("", |shard| &shard.url);
        let cache = format!("https://127.0.0.1:{}", self.cache_port);
        self.write_kubeconfig("cache", &cache, "masters")?;
        self.write_kubeconfig("root-shard", root, "masters")?;
        self.write_kubeconfig("logical-cluster-admin", root, "logical-cluster-admin")?;
        self.write_kubeconfig(
            "external-logical-cluster-admin",
            &self.front_proxy_url,
            "external-logical-cluster-admin",
        )?;
        // The front-proxy fills in the shard's own address.
        self.write_kubeconfig("shards", "", "masters")?;
        let mapping = json!([{
            "path": "/clusters/",
            "backend": root,
            "backend_server_ca": self.path("serving-ca.crt"),
            "proxy_client_cert": self.path("requestheader.crt"),
            "proxy_client_key": self.path("requestheader.key"),
        }]);
        std::fs::write(self.path("mapping.yaml"), mapping.to_string())?;
        Ok(serving.pem().to_owned())
    }

    /// Writes a kubeconfig of a user with a certificate. A joining shard looks for the context `shard-base`.
    fn write_kubeconfig(&self, name: &str, url: &str, user: &str) -> Outcome {
        let mut cluster = json!({"certificate-authority": self.path("serving-ca.crt")});
        if !url.is_empty() {
            cluster["server"] = json!(url);
        }
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "shard-base",
            "clusters": [{"name": "base", "cluster": cluster}],
            "users": [{"name": user, "user": {
                "client-certificate": self.path(&format!("{user}.crt")),
                "client-key": self.path(&format!("{user}.key")),
            }}],
            "contexts": [{"name": "shard-base", "context": {"cluster": "base", "user": user}}],
        });
        Ok(std::fs::write(self.path(&format!("{name}.kubeconfig")), kubeconfig.to_string())?)
    }

    fn start_cache_server(&mut self) -> Outcome {
        let arguments = [
            self.at("root-directory", "cache"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.cache_port),
            self.at("tls-cert-file", "local.crt"),
            self.at("tls-private-key-file", "local.key"),
            self.at("client-ca-file", "client-ca.crt"),
            format!("--embedded-etcd-client-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
            format!("--embedded-etcd-peer-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
        ];
        self.servers.spawn(&self.programs.cache_server, &arguments)
    }

    fn start_shards(&mut self) -> Outcome {
        for shard in self.shards.clone() {
            let port = shard.url.rsplit(':').next().unwrap_or_default();
            let mut arguments = vec![
                "start".to_owned(),
                format!("--shard-name={}", shard.name),
                self.at("root-directory", &format!("{}-shard", shard.name)),
                format!("--bind-address={}", shard.host),
                format!("--secure-port={port}"),
                format!("--shard-base-url={}", shard.url),
                format!("--shard-virtual-workspace-url={}", shard.url),
                format!("--shard-external-url={}", self.front_proxy_url),
                self.at("shard-virtual-workspace-ca-file", "serving-ca.crt"),
                self.at("shard-client-cert-file", "masters.crt"),
                self.at("shard-client-key-file", "masters.key"),
                self.at("tls-cert-file", &format!("{}.crt", shard.name)),
                self.at("tls-private-key-file", &format!("{}.key", shard.name)),
                self.at("client-ca-file", "client-ca.crt"),
                self.at("requestheader-client-ca-file", "requestheader-ca.crt"),
                "--requestheader-username-headers=X-Remote-User".to_owned(),
                "--requestheader-group-headers=X-Remote-Group".to_owned(),
                "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
                self.at("service-account-key-file", "accounts.pub"),
                self.at("service-account-private-key-file", "accounts.key"),
                self.at("service-account-signing-key-file", "accounts.key"),
                self.at("logical-cluster-admin-kubeconfig", "logical-cluster-admin.kubeconfig"),
                self.at("external-logical-cluster-admin-kubeconfig", "external-logical-cluster-admin.kubeconfig"),
                self.at("cache-kubeconfig", "cache.kubeconfig"),
                self.at("token-auth-file", "tokens.csv"),
                format!("--embedded-etcd-client-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
                format!("--embedded-etcd-peer-port={}", lasting_port(Ipv4Addr::LOCALHOST)?),
            ];
            if shard.name != Shard::ROOT {
                arguments.push(self.at("root-shard-kubeconfig-file", "root-shard.kubeconfig"));
            }
            self.servers.spawn_as(shard.name, &self.programs.kcp, &arguments)?;
        }
        Ok(())
    }

    /// Waits until each shard is ready; the front-proxy needs all shards from its start on.
    async fn until_shards_serve(&self, ca_pem: &str) -> Outcome {
        for shard in &self.shards {
            let access = Access::new(shard.url.clone(), ca_pem, [MASTERS_TOKEN; 3])?;
            let masters = Api::open(&access.kubeconfig("", MASTERS_TOKEN)).await?;
            let what = format!("shard {} is ready", shard.name);
            let ready = eventually(&what, START, async || masters.get("/readyz").await?.ok().map(drop));
            tokio::select! {
                ready = ready => ready?,
                ended = self.servers.until_one_ends() => return Err(ended),
            }
        }
        Ok(())
    }

    fn start_front_proxy(&mut self, port: u16) -> Outcome {
        let arguments = [
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            self.at("root-directory", "front-proxy"),
            self.at("mapping-file", "mapping.yaml"),
            self.at("root-kubeconfig", "root-shard.kubeconfig"),
            self.at("shards-kubeconfig", "shards.kubeconfig"),
            self.at("client-ca-file", "client-ca.crt"),
            self.at("tls-cert-file", "local.crt"),
            self.at("tls-private-key-file", "local.key"),
        ];
        self.servers.spawn(&self.programs.front_proxy, &arguments)
    }
}
