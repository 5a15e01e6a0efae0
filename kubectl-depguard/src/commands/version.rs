//! `version`: shows the versions of this program, the controller and the webhook, and whether they work together.

use std::path::PathBuf;

use depguard_controller::manifests::VERSION_ANNOTATION;
use depguard_kcp::Endpoint;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::api_server::ApiServer;
use crate::cluster::resource_path::text;
use crate::commands::install::own_namespace;
use crate::commands::status::{parts, pods_cluster, rules};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::one_line;
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::terminal::Terminal;
use crate::options::Global;

mod skew;

use self::skew::Skew;

/// Show the versions of this program, the controller and the webhook, and whether they work together
///
/// The controller that acts writes its version into its Lease. The version of the webhook is the one of its Deployment,
/// if the label app.kubernetes.io/version and the tag of the image agree and no rollout is under way. A version that
/// can't be known is unknown, and never counts as equal. docs/operations.md says which versions work together.
///
/// In kcp, the processes run in the cluster of --pods-kubeconfig.
///
/// Exit code: 1 if the versions don't work together; 2 if one of them is unknown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only the version of this program, and send no request
    #[arg(long, conflicts_with = "pods_kubeconfig")]
    client: bool,

    /// kcp only: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<PathBuf>,

    /// Output format [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<VersionFormat>,
}

/// Formats of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VersionFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Result of the command. Without the processes, only the client's version is known, and there is no skew.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<ProcessVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<ProcessVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skew: Option<Skew>,
}

/// Version of a process, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", untagged)]
enum ProcessVersion {
    #[serde(rename_all = "camelCase")]
    Known {
        version: String,
        /// Object that states the version.
        stated_by: String,
    },
    Unknown {
        /// Reason, as a sentence.
        unknown: String,
    },
}

/// Version of this program.
const CLIENT: &str = env!("CARGO_PKG_VERSION");
const CONTROLLER: &str = "depguard-controller";
const WEBHOOK: &str = "depguard-webhook";

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let mut report = Report { client: CLIENT, controller: None, webhook: None, skew: None };
    if !args.client {
        // The version of this program is known even if the cluster of the others is not.
        let (controller, webhook) = processes(&args, global).await.unwrap_or_else(|why| {
            let unknown = ProcessVersion::unknown(why.message());
            (unknown.clone(), unknown)
        });
        report.skew = Some(Skew::new(CLIENT, controller.known(), webhook.known()));
        (report.controller, report.webhook) = (Some(controller), Some(webhook));
    }
    print(&report, args.output, terminal)?;
    match report.skew {
        None | Some(Skew::None | Skew::Supported { .. }) => Ok(Outcome::Well),
        Some(Skew::Unsupported { .. }) => Ok(Outcome::Finding),
        Some(Skew::Unknown) => Err(Failure::new("it is unknown if these versions work together").hint(
            "the lines above say why: name the cluster with --kubeconfig, the namespace with -n, in kcp the cluster of the \
             processes with --pods-kubeconfig, or get the rights; --client asks no cluster",
        )),
    }
}

/// Returns the versions of the controller and of the webhook; fails if the cluster in which they run is not known.
async fn processes(args: &Args, global: &Global) -> Result<(ProcessVersion, ProcessVersion), Failure> {
    let live = ApiServer::open(global).await?;
    let Some(cluster) = pods_cluster(&live, args.pods_kubeconfig.as_deref(), global).await? else {
        return Err(Failure::new("the processes run in a Kubernetes cluster: name it with --pods-kubeconfig"));
    };
    // Configurations that can't be read name no namespace; the default one is as good a guess.
    let configurations = live.endpoint().list_json(rules::CONFIGURATIONS).await.map(|list| list.items);
    let namespace = match (&global.namespace, parts::namespace(&configurations.unwrap_or_default())) {
        (None, Some(installed)) => installed,
        _ => own_namespace(global),
    };
    let controller = match by_lease(&cluster, &namespace).await {
        LeaseVersion::Stated(version) => version,
        // A controller before this annotation, or one without an election.
        LeaseVersion::Silent => by_deployment(&cluster, &namespace, CONTROLLER).await,
    };
    Ok((controller, by_deployment(&cluster, &namespace, WEBHOOK).await))
}

/// Statement of the controllers' Lease.
enum LeaseVersion {
    Stated(ProcessVersion),
    /// There is no Lease, or its holder states no version.
    Silent,
}

async fn by_lease(cluster: &Endpoint, namespace: &str) -> LeaseVersion {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{}", parts::LEASE);
    match cluster.get_json(&path).await {
        Ok(lease) => match (parts::stopped(&lease, Timestamp::now()), annotation(&lease)) {
            (Some(why), _) => LeaseVersion::Stated(ProcessVersion::unknown(why)),
            (None, Some(version)) => LeaseVersion::Stated(ProcessVersion::Known {
                version: version.to_owned(),
                stated_by: format!("lease/{}", parts::LEASE),
            }),
            (None, None) => LeaseVersion::Silent,
        },
        Err(why) if why.is_missing(parts::LEASE) => LeaseVersion::Silent,
        Err(why) => LeaseVersion::Stated(ProcessVersion::unknown(match why.status() {
            Some(401 | 403) => format!("you need the right to get leases.coordination.k8s.io in namespace {namespace}"),
            _ => why.to_string(),
        })),
    }
}

fn annotation(lease: &Value) -> Option<&str> {
    lease.pointer("/metadata/annotations")?.get(VERSION_ANNOTATION)?.as_str().filter(|version| !version.is_empty())
}

async fn by_deployment(cluster: &Endpoint, namespace: &str, name: &str) -> ProcessVersion {
    match cluster.get_json(&format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")).await {
        Ok(deployment) => ProcessVersion::from_deployment(&deployment, name),
        Err(why) if why.is_missing(name) => ProcessVersion::unknown(format!(
            "there is no deployment {name} in namespace {namespace}: name its namespace with -n"
        )),
        Err(why) => ProcessVersion::unknown(match why.status() {
            Some(401 | 403) => format!("you need the right to get deployments.apps in namespace {namespace}"),
            _ => why.to_string(),
        }),
    }
}

impl CommandReport for Report {
    const KIND: &'static str = "VersionReport";
}

impl ProcessVersion {
    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { unknown: why.into() }
    }

    fn known(&self) -> Option<&str> {
        match self {
            Self::Known { version, .. } => Some(version),
            Self::Unknown { .. } => None,
        }
    }

    /// Reads the version of all pods of a Deployment: its label says what was installed, and the tag what runs.
    fn from_deployment(deployment: &Value, name: &str) -> Self {
        let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_u64);
        let desired = number("/spec/replicas").unwrap_or(1);
        let is_rolled_out = number("/status/observedGeneration") >= number("/metadata/generation")
            && number("/status/updatedReplicas").unwrap_or_default() == desired
            && number("/status/replicas").unwrap_or_default() == desired;
        if desired == 0 || !is_rolled_out {
            return Self::unknown(format!("not all pods of deployment {name} are of its present version"));
        }
        if number("/status/readyReplicas").unwrap_or_default() == 0 {
            return Self::unknown(format!("no pod of deployment {name} is ready, so its version does not run"));
        }
        let label = text(deployment, "/metadata/labels/app.kubernetes.io~1version");
        let image = text(deployment, "/spec/template/spec/containers/0/image");
        let Some(tag) = tag_of(image) else {
            return Self::unknown(format!("the image `{image}` of deployment {name} has no tag"));
        };
        let version = tag.strip_prefix('v').unwrap_or(tag);
        match label.strip_prefix('v').unwrap_or(label) == version {
            true => Self::Known { version: version.to_owned(), stated_by: format!("deployment/{name}") },
            false => Self::unknown(format!(
                "deployment {name} has the label app.kubernetes.io/version `{label}`, but an image with the tag `{tag}`"
            )),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Known { version, stated_by } => format!("{version} ({stated_by})"),
            Self::Unknown { unknown } => format!("unknown: {unknown}"),
        }
    }
}

/// Returns the tag of an image: `0.1.0` of `host:5000/depguard:0.1.0@sha256:…`.
fn tag_of(image: &str) -> Option<&str> {
    let named = image.split('@').next().unwrap_or(image);
    let last = named.rsplit('/').next().unwrap_or(named);
    last.split_once(':').map(|(_, tag)| tag).filter(|tag| !tag.is_empty())
}

fn print(report: &Report, format: Option<VersionFormat>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(VersionFormat::Json) => return print_json(report, terminal),
        Some(VersionFormat::Yaml) => return print_yaml(report, terminal),
        None => {}
    }
    let process = |version: &Option<ProcessVersion>| version.as_ref().map(ProcessVersion::text);
    let lines = [
        ("client", Some(report.client.to_owned())),
        ("controller", process(&report.controller)),
        ("webhook", process(&report.webhook)),
        ("skew", report.skew.as_ref().map(Skew::text)),
    ];
    for (what, value) in lines {
        if let Some(value) = value {
            writeln!(terminal.out(), "{what}: {}", one_line(&value))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_states_a_version_only_if_all_that_it_says_agrees() {
        let deployment = |label: &str, image: &str, updated: u64| {
            json!({
                "metadata": {"generation": 2, "labels": {"app.kubernetes.io/version": label}},
                "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": image}]}}},
                "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "readyReplicas": 1},
            })
        };
        let mut never_ran = deployment("0.1.0", "depguard:0.1.0", 2);
        never_ran["status"]["readyReplicas"] = json!(null);
        assert_eq!(ProcessVersion::from_deployment(&never_ran, "d").known(), None);
        for (label, image, updated, version) in [
            ("0.1.0", "host:5000/depguard:0.1.0", 2, Some("0.1.0")),
            ("0.1.0", "host/depguard:v0.1.0@sha256:00", 2, Some("0.1.0")),
            ("0.1.0", "host/depguard:0.2.0", 2, None),
            ("0.1.0", "host:5000/depguard", 2, None),
            ("0.1.0", "host/depguard@sha256:00", 2, None),
            ("", "depguard:0.1.0", 2, None),
            ("0.1.0", "depguard:0.1.0", 1, None),
        ] {
            let read = ProcessVersion::from_deployment(&deployment(label, image, updated), "d");
            assert_eq!(read.known(), version, "{label} {image} {updated}");
        }
    }
}
