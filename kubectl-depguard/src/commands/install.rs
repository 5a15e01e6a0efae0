//! `install`: applies everything that depguard needs, for users without Helm.

mod apply;
pub(crate) mod certificate;
pub(crate) mod chart;
mod kcp;
pub(crate) mod objects;

use std::path::{Path, PathBuf};

use depguard_controller::WebhookTarget;
use depguard_controller::manifests::{NAMESPACE, ReadThrough};
use depguard_core::{ControlPlane, WorkspacePath, api};
use depguard_kcp::{ApiError, Connection, Endpoint};
use serde_json::json;

pub(crate) use self::apply::{Applier, Targets, path_of};
use self::certificate::Pair;
use self::chart::{Issuer, Names};
use self::objects::{Item, Place};
use crate::cluster::api_server::ApiServer;
use crate::cluster::resource_path;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::OutputArgs;
use crate::io::terminal::Terminal;
use crate::options::{DryRun, Global};

/// Install depguard, or update an installation
///
/// Applies the objects that the Helm chart would create with its defaults, and prints one line per object. You can run
/// it again at any time; correct objects stay unchanged. Everything goes to namespace depguard-system, or to the
/// namespace of -n. For a setting without a flag, use the chart.
///
/// The webhook's certificate comes from an existing Secret (--tls-secret), from cert-manager (--cert-manager), or from
/// this command, which creates a CA of its own and keeps the CA's key in Secret `depguard-ca`. A certificate of this
/// command is valid for a year and is NOT renewed by itself: run install again within its last 120 days to get a new
/// one from the same CA.
///
/// In kcp, use an administrator's kubeconfig. The command creates depguard's own workspace, its APIExport and the
/// rights in it, and the bindings of the named providers. The processes run in a Kubernetes cluster
/// (--pods-kubeconfig). You create their kubeconfigs for kcp yourself, as key `kubeconfig` of the Secrets
/// `controller-kubeconfig` and `webhook-kubeconfig`. With --shard-kubeconfig, the command grants the rights on shards.
/// At its end it prints the steps that it leaves to you; `--dry-run=client -o yaml` prints their objects.
///
/// Exit code: 0 if the command did its own steps, even if steps are left to you; 2 if a step failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Image with both binaries
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,

    /// Secret with the webhook's certificate, as tls.crt, tls.key and ca.crt
    #[arg(long, value_name = "NAME", value_parser = secret)]
    tls_secret: Option<String>,

    /// Let cert-manager make the certificate, by a CA of its own or by an existing issuer
    #[arg(long, value_name = "KIND/NAME", num_args = 0..=1, require_equals = true, conflicts_with = "tls_secret", value_parser = issuer)]
    cert_manager: Option<Option<Issuer>>,

    /// kcp only: URL at which shards reach the webhook: https://host/validate
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,

    /// kcp only: depguard's own workspace; install creates it if it does not exist
    #[arg(long, value_name = "PATH", default_value = depguard_controller::manifests::DEP_CTRL_PATH)]
    workspace: WorkspacePath,

    /// kcp only: workspace of a provider that will bind depguard and accept all its claims; may be repeated
    #[arg(long, value_name = "PATH")]
    provider: Vec<WorkspacePath>,

    /// kcp only: way in which the webhook reads dependents
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    read_through: ReadThrough,

    /// kcp only: kubeconfig of a shard's administrator, to grant rights on the shard; may be repeated
    #[arg(long, value_name = "FILE")]
    shard_kubeconfig: Vec<PathBuf>,

    /// kcp only: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<PathBuf>,

    /// Change nothing: `client` prints the objects, `server` lets the API server check them
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<DryRun>,

    /// Take over fields that another manager set
    #[arg(long)]
    force_conflicts: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (control_plane, targets) = args.open(global).await?;
    args.check(control_plane)?;
    let namespace = own_namespace(global);
    let mut applier = Applier::new(targets, args.dry_run, args.force_conflicts, args.output.output);
    let notes = match control_plane {
        ControlPlane::Kubernetes => {
            let mut items = objects::rights(&namespace);
            adopt_namespace(&mut applier, &mut items, terminal).await?;
            applier.apply(&items, terminal).await?;
            args.processes(control_plane, &namespace, &mut applier, terminal).await?;
            let until = match has_rules(&applier.targets).await {
                Ok(true) => String::new(),
                Ok(false) => "depguard refuses nothing until you create a DependencyRule; ".to_owned(),
                Err(why) => format!("could not read the DependencyRules ({why}); "),
            };
            vec![format!("{until}`kubectl depguard status` shows the state")]
        }
        ControlPlane::Kcp => kcp::install(&args, &namespace, &mut applier, terminal).await?,
    };
    applier.finish(terminal)?;
    for note in notes {
        terminal.note(&note)?;
    }
    Ok(Outcome::Well)
}

/// Returns true if the cluster has rules already.
async fn has_rules(targets: &Targets) -> Result<bool, ApiError> {
    let Some(cluster) = &targets.cluster else { return Ok(false) };
    match cluster.list_json(&format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL)).await {
        Ok(rules) => Ok(!rules.items.is_empty()),
        Err(why) if why.is_not_found() => Ok(false),
        Err(why) => Err(why),
    }
}

/// Returns depguard's own namespace, which is never the namespace of the kubeconfig's context.
pub(crate) fn own_namespace(global: &Global) -> String {
    global.namespace.as_ref().map_or_else(|| NAMESPACE.to_owned(), ToString::to_string)
}

/// Connects to the API server of a further kubeconfig.
pub(crate) async fn connect(kubeconfig: &Path, global: &Global) -> Result<Connection, Failure> {
    // A connection to kcp would require a workspace in the kubeconfig, which kcp's own lacks.
    let options = global.further_options(ControlPlane::Kubernetes).kubeconfig(kubeconfig.to_owned());
    Connection::open(&options).await.map_err(Failure::new)
}

/// Returns `system:admin` of the shard that a kubeconfig leads to. The kubeconfig may name any workspace, or none, as
/// kcp's own does.
pub(crate) async fn shard(kubeconfig: &Path, global: &Global) -> Result<Endpoint, Failure> {
    let admin = WorkspacePath::parse("system:admin").map_err(Failure::new)?;
    Ok(connect(kubeconfig, global).await?.workspace(&admin))
}

impl Args {
    /// Opens the targets of the objects. A dry run of the client alone needs no kubeconfig.
    async fn open(&self, global: &Global) -> Result<(ControlPlane, Targets), Failure> {
        if let (Some(DryRun::Client), Some(control_plane)) = (self.dry_run, global.control_plane()) {
            global.refuse_server_flags("with --control-plane and --dry-run=client the command asks no API server")?;
            return Ok((control_plane, Targets::default()));
        }
        let live = ApiServer::open(global).await?;
        let mut targets = Targets::default();
        match live.control_plane() {
            ControlPlane::Kubernetes => targets.cluster = Some(live.endpoint()),
            ControlPlane::Kcp => {
                targets.kcp = Some(live.connection().clone());
                for kubeconfig in &self.shard_kubeconfig {
                    targets.shards.push(shard(kubeconfig, global).await?);
                }
                if let Some(kubeconfig) = &self.pods_kubeconfig {
                    targets.cluster = Some(connect(kubeconfig, global).await?.own_endpoint());
                }
            }
        }
        Ok((live.control_plane(), targets))
    }

    /// Refuses options that don't fit together, and that no API server would refuse.
    fn check(&self, control_plane: ControlPlane) -> Result<(), Failure> {
        let of_kcp = [
            ("--webhook-url", self.webhook_url.is_some()),
            ("--provider", !self.provider.is_empty()),
            ("--shard-kubeconfig", !self.shard_kubeconfig.is_empty()),
            ("--pods-kubeconfig", self.pods_kubeconfig.is_some()),
            ("--read-through", self.read_through == ReadThrough::Export),
        ];
        match of_kcp.iter().find(|(_, given)| *given) {
            Some((flag, _)) if control_plane == ControlPlane::Kubernetes => {
                return Err(Failure::new(format!("{flag} is for kcp only"))
                    .hint("leave it out, or add --control-plane kcp; the Helm chart has further settings"));
            }
            _ => {}
        }
        let runs_here = control_plane == ControlPlane::Kubernetes || self.has_processes();
        if runs_here && self.image.is_none() {
            return Err(Failure::new("no image is named, and there is no published one yet")
                .hint("build one from the Dockerfile, push it to a registry of the nodes, and name it with --image"));
        }
        if control_plane == ControlPlane::Kcp && self.has_processes() {
            let url = self.webhook_url.clone().unwrap_or_default();
            WebhookTarget::Url(url).check(control_plane).map_err(Failure::new)?;
        }
        Ok(())
    }

    /// Returns true if the processes are installed as well.
    fn has_processes(&self) -> bool {
        self.pods_kubeconfig.is_some() || (self.dry_run == Some(DryRun::Client) && self.image.is_some())
    }

    fn names(&self, control_plane: ControlPlane, namespace: &str) -> Names {
        Names {
            control_plane,
            namespace: namespace.to_owned(),
            image: self.image.clone().unwrap_or_default(),
            tls_secret: self.tls_secret.clone().unwrap_or_else(|| chart::TLS_SECRET.to_owned()),
            webhook_url: self.webhook_url.clone(),
            read_through: self.read_through,
        }
    }

    /// Installs the certificate and the processes that need it.
    async fn processes(
        &self,
        control_plane: ControlPlane,
        namespace: &str,
        applier: &mut Applier,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let names = self.names(control_plane, namespace);
        let endpoint = applier.targets.endpoint(&Place::Cluster);
        let issuer = self.cert_manager.as_ref().map(|given| given.clone().unwrap_or(Issuer::Own));
        if issuer.is_none() && self.tls_secret.is_none() {
            let item = |object| Item { place: Place::Cluster, object };
            match certificate::pair(endpoint.as_ref(), namespace, &chart::dns_names(&names)).await? {
                Pair::Made(secrets) => {
                    applier.apply(&secrets.into_iter().map(item).collect::<Vec<_>>(), terminal).await?;
                }
                Pair::Kept => {
                    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names.tls_secret, "namespace": namespace}});
                    applier.keep(&item(secret), terminal)?;
                }
            }
        }
        if let (Some(endpoint), Some(name), None) = (&endpoint, &self.tls_secret, self.dry_run) {
            is_usable(endpoint, namespace, name, terminal).await?;
        }
        applier.apply(&objects::processes(&names, issuer.as_ref())?, terminal).await
    }
}

/// Leaves an existing namespace unchanged: it belongs to somebody else, and must not be deleted with depguard one day.
async fn adopt_namespace(applier: &mut Applier, items: &mut Vec<Item>, terminal: &mut Terminal) -> Result<(), Failure> {
    let is_namespace = |item: &Item| resource_path::text(&item.object, "/kind") == "Namespace";
    let Some(at) = items.iter().position(is_namespace) else { return Ok(()) };
    let (Some(item), Some(endpoint)) = (items.get(at), applier.targets.endpoint(&Place::Cluster)) else {
        return Ok(());
    };
    match endpoint.get_json(&path_of(&item.object)?).await {
        Ok(found) if objects::is_ours(&found) => {}
        Ok(_) => {
            let item = items.remove(at);
            applier.keep(&item, terminal)?;
        }
        Err(why) if why.is_not_found() => {}
        Err(why) => {
            return Err(Failure::new(format!(
                "could not find out who owns {}: {why}",
                resource_path::shown(&item.object)
            ))
            .hint("nothing was changed; get the right to read it, or run it again"));
        }
    }
    Ok(())
}

/// Checks the Secret without which no webhook would start.
async fn is_usable(endpoint: &Endpoint, namespace: &str, name: &str, terminal: &mut Terminal) -> Result<(), Failure> {
    let hint = format!(
        "create it: `kubectl -n {namespace} create secret generic {name} --from-file=tls.crt --from-file=tls.key --from-file=ca.crt`"
    );
    match endpoint.get_json(&format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await {
        Ok(secret) => {
            match ["tls.crt", "tls.key", "ca.crt"].into_iter().find(|key| certificate::held(&secret, key).is_none()) {
                Some(key) => {
                    Err(Failure::new(format!("the Secret {name} in namespace {namespace} has no {key}")).hint(hint))
                }
                None => Ok(()),
            }
        }
        Err(why) if why.is_not_found() => {
            Err(Failure::new(format!("there is no Secret {name} in namespace {namespace}")).hint(hint))
        }
        // A user who may not read Secrets may still install.
        Err(why) if why.status() == Some(403) => Ok(terminal.note(&format!(
            "no right to read Secret {name} in namespace {namespace}, which the webhook needs: check that it has \
             tls.crt, tls.key and ca.crt"
        ))?),
        Err(why) => Err(Failure::new(why)),
    }
}

fn image(text: &str) -> Result<String, String> {
    let is_one = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    is_one.then(|| text.to_owned()).ok_or_else(|| "write it as `registry.example.com/depguard:0.1.0`".to_owned())
}

fn secret(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let is_one = !text.is_empty() && text.len() <= 253 && text.chars().all(fits);
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| "a Secret's name has lower-case letters, digits, `-` and `.`".to_owned())
}

fn issuer(text: &str) -> Result<Issuer, String> {
    match text.split_once('/') {
        Some((kind @ ("Issuer" | "ClusterIssuer"), name)) if secret(name).is_ok() => {
            Ok(Issuer::Given { kind: kind.to_owned(), name: name.to_owned() })
        }
        _ => Err("write it as `ClusterIssuer/name` or `Issuer/name`".to_owned()),
    }
}
