//! Which rings a test run is to try, and whether each can run here.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that chooses the rings.
pub(crate) const VARIABLE: &str = "DEPGUARD_RINGS";

/// An API server that the scenarios run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// The testbed as a kcp.
    TestbedKcp,
    /// The same, where dependents are read through their exports.
    TestbedKcpExport,
    /// The testbed as a plain cluster.
    TestbedKubernetes,
    /// A real kube-apiserver with its etcd and controllers.
    Kube,
    /// A real kcp.
    Kcp,
    /// The same, where dependents are read through their exports.
    KcpExport,
}

impl RingKind {
    /// Every ring, in the order in which they are named.
    pub(crate) const ALL: [RingKind; 6] = [
        RingKind::TestbedKcp,
        RingKind::TestbedKcpExport,
        RingKind::TestbedKubernetes,
        RingKind::Kube,
        RingKind::Kcp,
        RingKind::KcpExport,
    ];

    /// As the variable and the printed lines have it.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::TestbedKcp => "testbed-kcp",
            RingKind::TestbedKcpExport => "testbed-kcp-export",
            RingKind::TestbedKubernetes => "testbed-kubernetes",
            RingKind::Kube => "kube",
            RingKind::Kcp => "kcp",
            RingKind::KcpExport => "kcp-export",
        }
    }

    /// Whether there are workspaces.
    pub fn is_kcp(self) -> bool {
        matches!(self, RingKind::TestbedKcp | RingKind::Kcp) || self.reads_through_exports()
    }

    /// Whether depguard reads dependents through their exports there.
    pub fn reads_through_exports(self) -> bool {
        matches!(self, RingKind::TestbedKcpExport | RingKind::KcpExport)
    }

    /// Whether the server runs in this process.
    pub fn is_testbed(self) -> bool {
        matches!(self, RingKind::TestbedKcp | RingKind::TestbedKcpExport | RingKind::TestbedKubernetes)
    }
}

/// Reads [`VARIABLE`]'s value. Without one, the rings are those in the process.
pub(crate) fn wanted(value: Option<&str>) -> Result<Vec<RingKind>, String> {
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

/// The programs of a real server.
#[derive(Clone, Debug)]
pub(crate) enum Programs {
    /// The testbed needs none.
    None,
    /// A folder with `etcd`, `kube-apiserver` and, maybe, `kube-controller-manager`.
    Kube(PathBuf),
    /// The kcp binary.
    Kcp(PathBuf),
}

impl RingKind {
    /// Finds what the ring runs on, building it where that is possible; else the reason why it cannot run.
    pub(crate) fn programs(self) -> Result<Programs, String> {
        match self {
            RingKind::TestbedKcp | RingKind::TestbedKcpExport | RingKind::TestbedKubernetes => Ok(Programs::None),
            RingKind::Kube => kube_servers().map(Programs::Kube),
            RingKind::Kcp | RingKind::KcpExport => kcp_binary().map(Programs::Kcp),
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
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/build");
    let run = |arguments: &[&str]| {
        let output = Command::new(&script).args(arguments).stderr(std::process::Stdio::inherit()).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    };
    if let Some(folder) = run(&["--cached"]) {
        return Ok(folder);
    }
    if find_on_path("go").is_none() {
        return Err("go is not installed and KUBEBUILDER_ASSETS is not set".to_owned());
    }
    println!("ring kube: building its servers, some five minutes");
    run(&[]).ok_or_else(|| "e2e/servers/build failed".to_owned())
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

pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: Option<&str>) -> Vec<&'static str> {
        wanted(value).unwrap().into_iter().map(RingKind::name).collect()
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
        assert_eq!(names(Some("all")).len(), 6);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(wanted(Some("kube,k3s")).unwrap_err().contains("no ring `k3s`"));
    }
}
