//! Selection of the rings for a test run, and the programs that each ring needs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that chooses the rings.
pub(crate) const VARIABLE: &str = "DEPGUARD_RINGS";

/// Kind of API server that the scenarios run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// The testbed as a kcp.
    TestbedKcp,
    /// The testbed as a kcp, where dependents are read through their exports.
    TestbedKcpExport,
    /// The testbed as a plain cluster.
    TestbedKubernetes,
    /// A real kube-apiserver with its etcd and controllers.
    Kube,
    /// The same with all controllers, for Kubernetes' own tests; no other scenario runs there.
    Conformance,
    /// A real kcp.
    Kcp,
    /// A real kcp, where dependents are read through their exports.
    KcpExport,
    /// A real kcp of two shards.
    KcpShards,
    /// A real kcp of two shards, where dependents are read through their exports.
    KcpShardsExport,
}

impl RingKind {
    /// Every ring, in the order in which they are named.
    pub(crate) const ALL: [RingKind; 9] = [
        RingKind::TestbedKcp,
        RingKind::TestbedKcpExport,
        RingKind::TestbedKubernetes,
        RingKind::Kube,
        RingKind::Conformance,
        RingKind::Kcp,
        RingKind::KcpExport,
        RingKind::KcpShards,
        RingKind::KcpShardsExport,
    ];

    /// Returns the ring's name in `DEPGUARD_RINGS` and in the printed lines.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::TestbedKcp => "testbed-kcp",
            RingKind::TestbedKcpExport => "testbed-kcp-export",
            RingKind::TestbedKubernetes => "testbed-kubernetes",
            RingKind::Kube => "kube",
            RingKind::Conformance => "conformance",
            RingKind::Kcp => "kcp",
            RingKind::KcpExport => "kcp-export",
            RingKind::KcpShards => "kcp-shards",
            RingKind::KcpShardsExport => "kcp-shards-export",
        }
    }

    /// Returns true if the ring has workspaces.
    pub fn is_kcp(self) -> bool {
        !matches!(self, RingKind::TestbedKubernetes | RingKind::Kube | RingKind::Conformance)
    }

    /// Returns true if depguard reads dependents through their exports on this ring.
    pub fn reads_through_exports(self) -> bool {
        matches!(self, RingKind::TestbedKcpExport | RingKind::KcpExport | RingKind::KcpShardsExport)
    }

    /// Returns true if shards are processes of their own, each of which a scenario can stop.
    pub fn is_sharded(self) -> bool {
        matches!(self, RingKind::KcpShards | RingKind::KcpShardsExport)
    }

    /// Returns true if the server runs in this process.
    pub fn is_testbed(self) -> bool {
        matches!(self, RingKind::TestbedKcp | RingKind::TestbedKcpExport | RingKind::TestbedKubernetes)
    }
}

/// Reads the value of [`VARIABLE`]. Without a value, the rings are the testbeds.
pub(crate) fn selected(value: Option<&str>) -> Result<Vec<RingKind>, String> {
    let value = value.filter(|value| !value.trim().is_empty()).unwrap_or("testbed");
    let mut chosen = Vec::new();
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let before = chosen.len();
        chosen.extend(
            RingKind::ALL
                .into_iter()
                .filter(|kind| word == "all" || word == kind.name() || (word == "testbed" && kind.is_testbed())),
        );
        if chosen.len() == before {
            return Err(format!(
                "{VARIABLE}: no ring `{word}`; there are {}, testbed and all",
                RingKind::ALL.map(RingKind::name).join(", ")
            ));
        }
    }
    Ok(RingKind::ALL.into_iter().filter(|kind| chosen.contains(kind)).collect())
}

/// Programs of a real server.
#[derive(Clone, Debug)]
pub(crate) enum Programs {
    /// The testbed needs none.
    None,
    /// A folder with `etcd`, `kube-apiserver` and possibly `kube-controller-manager`.
    Kube(PathBuf),
    /// The kcp binary.
    Kcp(PathBuf),
    /// The programs of a kcp of several shards.
    KcpShards(ShardPrograms),
}

/// Programs of a kcp of several shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardPrograms {
    /// `kcp`; each shard is a process of this program.
    pub(crate) kcp: PathBuf,
    /// `kcp-front-proxy`.
    pub(crate) front_proxy: PathBuf,
    /// `cache-server`.
    pub(crate) cache_server: PathBuf,
}

impl RingKind {
    /// Finds the programs of the ring, or builds them if possible; otherwise returns the reason why the ring cannot
    /// run.
    pub(crate) fn programs(self) -> Result<Programs, String> {
        match self {
            RingKind::TestbedKcp | RingKind::TestbedKcpExport | RingKind::TestbedKubernetes => Ok(Programs::None),
            RingKind::Kube => kube_servers().map(Programs::Kube),
            RingKind::Conformance => kubernetes_tests().and_then(|_| kube_servers()).map(Programs::Kube),
            RingKind::Kcp | RingKind::KcpExport => kcp_binary().map(Programs::Kcp),
            RingKind::KcpShards | RingKind::KcpShardsExport => shard_programs().map(Programs::KcpShards),
        }
    }
}

fn kube_servers() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) {
        for program in ["etcd", "kube-apiserver"] {
            if !folder.join(program).is_file() {
                return Err(format!("KUBEBUILDER_ASSETS is set, but has no `{program}`"));
            }
        }
        return Ok(folder);
    }
    built("servers/build", "the servers of the ring kube, some five minutes")
        .map_err(|why| format!("{why}, and KUBEBUILDER_ASSETS is not set"))
}

/// Returns the folder of Kubernetes' own end-to-end tests.
pub(crate) fn kubernetes_tests() -> Result<PathBuf, String> {
    built("conformance/build", "Kubernetes' own tests, some six minutes")
}

/// Returns the folder that a script of this crate prints, once the script has built what is not there yet.
fn built(script: &str, what: &str) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let run = |arguments: &[&str]| {
        let output = Command::new(&path).args(arguments).stderr(std::process::Stdio::inherit()).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    };
    if let Some(folder) = run(&["--cached"]) {
        return Ok(folder);
    }
    if find_on_path("go").is_none() {
        return Err("go is not installed".to_owned());
    }
    println!("building {what}");
    run(&[]).ok_or_else(|| format!("e2e/{script} failed"))
}

fn kcp_binary() -> Result<PathBuf, String> {
    if let Some(binary) = std::env::var_os("KCP_BIN").map(PathBuf::from) {
        return if binary.is_file() {
            Ok(binary)
        } else {
            Err(format!("KCP_BIN names `{}`, which is not a file", binary.display()))
        };
    }
    find_on_path("kcp").ok_or_else(|| "no kcp on PATH and KCP_BIN is not set".to_owned())
}

/// Finds `kcp`, and the other programs of a kcp of several shards beside `kcp` or on `PATH`.
fn shard_programs() -> Result<ShardPrograms, String> {
    let kcp = kcp_binary()?;
    let find = |program: &str| {
        let beside = kcp.with_file_name(program);
        if beside.is_file() {
            return Ok(beside);
        }
        find_on_path(program).ok_or_else(|| format!("no {program} beside {} or on PATH", kcp.display()))
    };
    let (front_proxy, cache_server) = (find("kcp-front-proxy")?, find("cache-server")?);
    Ok(ShardPrograms { kcp, front_proxy, cache_server })
}

pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: Option<&str>) -> Vec<&'static str> {
        selected(value).unwrap().into_iter().map(RingKind::name).collect()
    }

    #[test]
    fn without_a_choice_the_rings_are_those_in_the_process() {
        let testbeds = ["testbed-kcp", "testbed-kcp-export", "testbed-kubernetes"];
        assert_eq!(names(None), testbeds);
        assert_eq!(names(Some(" ")), testbeds);
    }

    #[test]
    fn each_ring_is_named_once() {
        let testbeds_and_kcp = ["testbed-kcp", "testbed-kcp-export", "testbed-kubernetes", "kcp"];
        assert_eq!(names(Some("kcp, testbed,testbed-kcp")), testbeds_and_kcp);
        assert_eq!(names(Some("all")).len(), 9);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(selected(Some("kube,k3s")).unwrap_err().contains("no ring `k3s`"));
    }
}
