//! `install`: what depguard needs, for those without Helm.

pub(crate) mod address;
mod apply;
pub(crate) mod certificate;
pub(crate) mod chart;
mod kcp;
pub(crate) mod objects;

use std::path::{Path, PathBuf};

use depguard_controller::WebhookTarget;
use depguard_controller::manifests::{NAMESPACE, ReadThrough};
use depguard_core::{Home, WorkspacePath, api};
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use serde_json::json;

use self::apply::Applier;
pub(crate) use self::apply::{Targets, path_of};
use self::certificate::Pair;
use self::chart::{Issuer, Names};
use self::objects::{Item, Place};
use crate::cli::{DryRun, Global};
use crate::live::Live;
use crate::outcome::{Failure, Outcome};
use crate::output::OutputArgs;
use crate::terminal::Terminal;

/// Install depguard, or bring what is installed up to date
///
/// Applies what the Helm chart would, with the chart's defaults, and prints a line an object. It can be run again at any
/// time; what is as it should be stays as it is. Everything goes to namespace depguard-system, or the one of -n. For other
/// settings than these flags, take the chart.
///
/// The certificate of the webhook is in a Secret that is there (--tls-secret), or cert-manager makes it (--cert-manager),
/// or it is made here, by a CA of its own whose key stays in Secret `depguard-ca`. One that is made here is good for a
/// year and NOT renewed by itself: another install renews it, by the same CA, once it has no more than 120 days left.
///
/// In home kcp the kubeconfig is an administrator's. Done are depguard's own workspace, its APIExport and the rights in
/// it, and the bindings of the providers that are named. The processes run in a Kubernetes cluster, by --pods-kubeconfig;
/// their kubeconfigs for the kcp are not made: they must be there, as key `kubeconfig` of the Secrets
/// `controller-kubeconfig` and `webhook-kubeconfig`. Rights on shards are granted where --shard-kubeconfig leads. What is
/// not done is said at the end; with `--dry-run=client -o yaml` it is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image of both binaries
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,

    /// Secret with the webhook's certificate, as tls.crt, tls.key and ca.crt
    #[arg(long, value_name = "NAME", value_parser = secret)]
    tls_secret: Option<String>,

    /// Let cert-manager make the certificate, by a CA of its own, or by an issuer that is there
    #[arg(long, value_name = "KIND/NAME", num_args = 0..=1, require_equals = true, conflicts_with = "tls_secret", value_parser = issuer)]
    cert_manager: Option<Option<Issuer>>,

    /// Home kcp: URL at which shards reach the webhook: https://host/validate
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,

    /// Home kcp: depguard's own workspace, which is made where it is not there
    #[arg(long, value_name = "PATH", default_value = depguard_controller::manifests::DEP_CTRL_PATH)]
    workspace: WorkspacePath,

    /// Home kcp: workspace of a provider that is to bind depguard, and accept all its claims; may be repeated
    #[arg(long, value_name = "PATH")]
    provider: Vec<WorkspacePath>,

    /// Home kcp: the way in which the webhook reads dependents
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    read_through: ReadThrough,

    /// Home kcp: kubeconfig of a shard's administrator, to grant rights on it; may be repeated
    #[arg(long, value_name = "FILE")]
    shard_kubeconfig: Vec<PathBuf>,

    /// Home kcp: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<PathBuf>,

    /// Change nothing: `client` says what would be applied, `server` lets the API server check it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<DryRun>,

    /// Take over fields that somebody else set
    #[arg(long)]
    force_conflicts: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (home, targets) = args.open(global).await?;
    args.check(home)?;
    let namespace = own_namespace(global);
    let mut applier = Applier::new(targets, args.dry_run, args.force_conflicts, args.output.output);
    let notes = match home {
        Home::Kubernetes => {
            let mut items = objects::rights(&namespace);
            adopt_namespace(&mut applier, &mut items, terminal).await?;
            applier.apply(&items, terminal).await?;
            args.processes(home, &namespace, &mut applier, terminal).await?;
            let until = if has_rules(&applier.targets).await {
                ""
            } else {
                "nothing is refused until there is a DependencyRule; "
            };
            vec![format!("{until}`kubectl depguard status` says how things are")]
        }
        Home::Kcp => kcp::install(&args, &namespace, &mut applier, terminal).await?,
    };
    applier.finish(terminal)?;
    for note in notes {
        terminal.note(&note)?;
    }
    Ok(Outcome::Well)
}

/// Whether the cluster has rules already, as far as it can be told.
async fn has_rules(targets: &Targets) -> bool {
    let Some(cluster) = &targets.cluster else { return false };
    let rules = cluster.list_json(&format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL)).await;
    rules.is_ok_and(|rules| !rules.items.is_empty())
}

/// depguard's own namespace: not the one that the kubeconfig's context happens to name.
pub(crate) fn own_namespace(global: &Global) -> String {
    global.namespace.as_ref().map_or_else(|| NAMESPACE.to_owned(), ToString::to_string)
}

/// The API server of a kubeconfig that is not the first.
pub(crate) async fn connect(kubeconfig: &Path, home: Home) -> Result<Connection, Failure> {
    let options = ConnectOptions::new(home).kubeconfig(kubeconfig.to_owned());
    Connection::open(&options).await.map_err(Failure::new)
}

/// `system:admin` of the shard that a kubeconfig leads to, whichever workspace it names, or none as kcp's own.
pub(crate) async fn shard(kubeconfig: &Path) -> Result<Endpoint, Failure> {
    let admin = WorkspacePath::parse("system:admin").map_err(Failure::new)?;
    // A connection to a kcp would want a workspace to be named.
    Ok(connect(kubeconfig, Home::Kubernetes).await?.workspace(&admin))
}

impl Args {
    /// Where everything goes. A dry run of the client alone needs no kubeconfig.
    async fn open(&self, global: &Global) -> Result<(Home, Targets), Failure> {
        if let (Some(DryRun::Client), Some(home)) = (self.dry_run, global.home()) {
            return Ok((home, Targets::default()));
        }
        let live = Live::open(global).await?;
        let mut targets = Targets::default();
        match live.home() {
            Home::Kubernetes => targets.cluster = Some(live.endpoint()),
            Home::Kcp => {
                targets.kcp = Some(live.connection().clone());
                for kubeconfig in &self.shard_kubeconfig {
                    targets.shards.push(shard(kubeconfig).await?);
                }
                if let Some(kubeconfig) = &self.pods_kubeconfig {
                    targets.cluster = Some(connect(kubeconfig, Home::Kubernetes).await?.home());
                }
            }
        }
        Ok((live.home(), targets))
    }

    /// What can't be left to an API server to say.
    fn check(&self, home: Home) -> Result<(), Failure> {
        let of_kcp = [
            ("--webhook-url", self.webhook_url.is_some()),
            ("--provider", !self.provider.is_empty()),
            ("--shard-kubeconfig", !self.shard_kubeconfig.is_empty()),
            ("--pods-kubeconfig", self.pods_kubeconfig.is_some()),
            ("--read-through", self.read_through == ReadThrough::Export),
        ];
        match of_kcp.iter().find(|(_, given)| *given) {
            Some((flag, _)) if home == Home::Kubernetes => {
                return Err(Failure::new(format!("{flag} is for home kcp only"))
                    .hint("leave it out, or say --home kcp; the Helm chart has further settings"));
            }
            _ => {}
        }
        let runs_here = home == Home::Kubernetes || self.has_processes();
        if runs_here && self.image.is_none() {
            return Err(Failure::new("no image is named, and there is no published one yet")
                .hint("build it from the Dockerfile, push it to where the nodes pull from, and name it by --image"));
        }
        if home == Home::Kcp && self.has_processes() {
            let url = self.webhook_url.clone().unwrap_or_default();
            WebhookTarget::Url(url).check(home).map_err(Failure::new)?;
        }
        Ok(())
    }

    /// Whether the processes are installed as well.
    fn has_processes(&self) -> bool {
        self.pods_kubeconfig.is_some() || (self.dry_run == Some(DryRun::Client) && self.image.is_some())
    }

    fn names(&self, home: Home, namespace: &str) -> Names {
        Names {
            home,
            namespace: namespace.to_owned(),
            image: self.image.clone().unwrap_or_default(),
            tls_secret: self.tls_secret.clone().unwrap_or_else(|| chart::TLS_SECRET.to_owned()),
            webhook_url: self.webhook_url.clone(),
            read_through: self.read_through,
        }
    }

    /// The certificate, and what needs it.
    async fn processes(
        &self,
        home: Home,
        namespace: &str,
        applier: &mut Applier,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let names = self.names(home, namespace);
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
            is_usable(endpoint, namespace, name).await?;
        }
        applier.apply(&objects::processes(&names, issuer.as_ref())?, terminal).await
    }
}

/// Leaves a namespace alone that was there before: it is somebody else's, and not to be deleted one day.
async fn adopt_namespace(applier: &mut Applier, items: &mut Vec<Item>, terminal: &mut Terminal) -> Result<(), Failure> {
    let is_namespace = |item: &Item| address::text(&item.object, "/kind") == "Namespace";
    let Some(at) = items.iter().position(is_namespace) else { return Ok(()) };
    let (Some(item), Some(endpoint)) = (items.get(at), applier.targets.endpoint(&Place::Cluster)) else {
        return Ok(());
    };
    let found = endpoint.get_json(&path_of(&item.object)?).await;
    if found.is_ok_and(|found| !objects::is_ours(&found)) {
        let item = items.remove(at);
        applier.keep(&item, terminal)?;
    }
    Ok(())
}

/// A Secret without which no webhook would start.
async fn is_usable(endpoint: &Endpoint, namespace: &str, name: &str) -> Result<(), Failure> {
    let hint = format!(
        "make it: `kubectl -n {namespace} create secret generic {name} --from-file=tls.crt --from-file=tls.key --from-file=ca.crt`"
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
        // Who may not read Secrets may still install.
        Err(why) if why.status() == Some(403) => Ok(()),
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
