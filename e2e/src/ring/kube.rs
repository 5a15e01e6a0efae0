//! A real kube-apiserver with its etcd and, if there is a kube-controller-manager, the controllers that a test needs.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use depguard_testbed::lasting_port;
use rcgen::KeyPair;

use super::process::Processes;
use super::{Access, Ring, Servers};
use crate::certificate::Authority;
use crate::outcome::{Outcome, ensure};
use crate::selection::RingKind;

// A controller manager without --use-service-account-credentials does everything as one user. That user needs every
// right, so the token below has them all.
const TOKENS: &str = r#"admin-token,admin,1,"system:masters"
tenant-token,tenant,2,""
controllers-token,system:kube-controller-manager,3,"system:masters"
suite-token,suite,4,"system:masters"
"#;

/// Controllers that deletions need, the controller that aggregates ClusterRoles, and those that roll Deployments out.
pub(super) const TEARDOWN: &str = "namespace,garbagecollector,clusterrole-aggregation,deployment,replicaset";
/// Controllers of [`TEARDOWN`], and the controllers that make accounts, pods of Jobs, and EndpointSlices of pods.
pub(super) const WORKLOADS: &str =
    "namespace,garbagecollector,clusterrole-aggregation,serviceaccount,deployment,replicaset,job,endpointslice";

/// All controllers but the one that takes a Node away whose kubelet is silent: nobody plays that part.
pub(super) const ALL: &str = "*,-node-lifecycle-controller";

/// Feature gates of the kinds whose selectable fields a test compares with the API server's.
const GATES: [&str; 2] = ["ClusterTrustBundle", "PodCertificateRequest"];

/// User of [`Ring::SUITE_TOKEN`].
pub(super) const SUITE: &str = "suite";

/// Log of the requests about locks, and of the suite's changes.
pub(super) const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"rules": [{"level": "Metadata", "verbs": ["update", "patch", "delete"], "resources": [
{"group": "dependencies.opendefense.cloud", "resources": ["objectlocks", "clusterobjectlocks"]}]},
{"level": "Metadata", "users": ["suite"], "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
{"level": "None"}]}"#;

pub(super) async fn start(kind: RingKind, programs: &Path, controllers: &str) -> Outcome<Ring> {
    let mut servers = Processes::new()?;
    let authority = Authority::new("depguard e2e")?;
    authority.issue(servers.folder())?;
    std::fs::write(servers.file("tokens.csv"), TOKENS)?;
    std::fs::write(servers.file("audit-policy.json"), AUDIT_POLICY)?;
    let accounts = KeyPair::generate()?;
    std::fs::write(servers.file("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(servers.file("accounts.pub"), accounts.public_key_pem())?;

    let etcd = start_etcd(&mut servers, &programs.join("etcd"))?;
    let port = lasting_port(Ipv4Addr::LOCALHOST)?;
    let api_server = programs.join("kube-apiserver");
    servers.spawn(
        &api_server,
        &[
            format!("--etcd-servers={etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--endpoint-reconciler-type=none".to_owned(),
            "--tls-cert-file=tls.crt".to_owned(),
            "--tls-private-key-file=tls.key".to_owned(),
            "--token-auth-file=tokens.csv".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-account-key-file=accounts.pub".to_owned(),
            "--service-account-signing-key-file=accounts.key".to_owned(),
            // On these loopback addresses, a test can play the network's part and listen at a Service's address.
            "--service-cluster-ip-range=127.96.0.0/16".to_owned(),
            "--watch-cache=true".to_owned(),
            format!("--feature-gates={}", feature_gates(&api_server)?),
            "--runtime-config=certificates.k8s.io/v1beta1=true".to_owned(),
            "--audit-policy-file=audit-policy.json".to_owned(),
            format!("--audit-log-path={AUDIT_LOG}"),
        ],
    )?;

    let url = format!("https://127.0.0.1:{port}");
    let access = Access::new(url, authority.pem(), ["admin-token", "tenant-token", "admin-token"])?;
    let mut ring = Ring::open(kind, access, Servers::Processes(servers)).await?;
    // Many sets of test binaries lack the controller manager.
    let manager = programs.join("kube-controller-manager");
    if manager.is_file() {
        start_controllers(&mut ring, &manager, controllers)?;
    }
    Ok(ring)
}

/// Returns the value of `--feature-gates` with those of [`GATES`] that this release of the program knows: it refuses to
/// start with another.
fn feature_gates(api_server: &Path) -> Outcome<String> {
    let help = Command::new(api_server).arg("--help").output()?;
    ensure(help.status.success(), || format!("`{} --help` failed: {}", api_server.display(), help.status))?;
    let help = String::from_utf8_lossy(&help.stdout);
    let known = GATES.into_iter().map(|gate| format!("{gate}=true")).filter(|gate| help.contains(&format!("{gate}|")));
    Ok(known.collect::<Vec<_>>().join(","))
}

fn start_controllers(ring: &mut Ring, manager: &Path, controllers: &str) -> Outcome {
    let kubeconfig = ring.access.kubeconfig("", "controllers-token");
    let Servers::Processes(servers) = &mut ring.servers else { return Ok(()) };
    std::fs::write(servers.file("controllers.kubeconfig"), kubeconfig)?;
    servers.spawn(
        manager,
        &[
            "--kubeconfig=controllers.kubeconfig",
            &format!("--controllers={controllers}"),
            "--leader-elect=false",
            "--root-ca-file=ca.crt",
            "--secure-port=0",
        ],
    )?;
    ring.controllers = true;
    Ok(())
}

fn start_etcd(servers: &mut Processes, etcd: &Path) -> Outcome<String> {
    let url = format!("http://127.0.0.1:{}", lasting_port(Ipv4Addr::LOCALHOST)?);
    let peer = format!("http://127.0.0.1:{}", lasting_port(Ipv4Addr::LOCALHOST)?);
    servers.spawn(
        etcd,
        &[
            "--data-dir=etcd".to_owned(),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ],
    )?;
    Ok(url)
}
