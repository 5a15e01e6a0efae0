//! `uninstall`: removes the webhook configurations first, then the rest.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use depguard_controller::manifests::{self, ReadThrough};
use depguard_controller::packs::RulePack;
use depguard_controller::{Removed, Uninstall, UninstallError};
use depguard_core::interlock::RegisterName;
use depguard_core::{ControlPlane, ExportName, WorkspacePath, api};
use depguard_kcp::{Endpoint, Preconditions};
use serde_json::Value;

use crate::cluster::api_server::{ApiServer, next_step};
use crate::cluster::resource_path::{shown, text};
use crate::commands::install::chart::{self, Issuer, Names};
use crate::commands::install::objects::{self, Item, Place, Workspaces, is_ours};
use crate::commands::install::{Targets, connect, own_namespace, path_of, shard};
use crate::commands::status::rules;
use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;
use crate::options::{DryRun, Global};

/// Uninstall depguard, even while its webhook is down
///
/// First removes every webhook configuration, so that nothing is refused any more, and tells running controllers to
/// write no more. Then removes the reference registers, and the objects that `install` made: the processes, their certificate, rights and accounts,
/// and the namespace (depguard-system, or that of -n) if it contains nothing else. Objects of Helm or of somebody else
/// stay, and the command names them.
///
/// Asks before it removes anything; without a terminal, give --yes.
///
/// Rules and the ClusterRoles of packs stay, without any effect, unless you give --crd. In kcp, the kubeconfig must point at depguard's own
/// workspace; its APIExport and the providers' bindings stay, because rules would go with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubernetes only: also delete the CustomResourceDefinition, and with it every DependencyRule, and the ClusterRoles of
    /// packs
    #[arg(long)]
    crd: bool,

    /// kcp only: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<PathBuf>,

    /// kcp only: kubeconfig of a shard's administrator, to revoke rights on the shard; may be repeated
    #[arg(long, value_name = "FILE")]
    shard_kubeconfig: Vec<PathBuf>,

    /// Print what would be removed (client), or in plain Kubernetes let the server try it (server)
    #[arg(long, value_enum, value_name = "MODE")]
    dry_run: Option<DryRun>,

    /// Remove without a question
    #[arg(short, long)]
    yes: bool,

    /// Name of the controllers' Lease, if you changed it
    #[arg(long, value_name = "NAME", default_value = "depguard-controller")]
    leader_election_id: String,

    /// Time limit for the webhook configurations, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
}

const RULES: &str = "customresourcedefinition.apiextensions.k8s.io/dependencyrules.dependencies.opendefense.cloud";
const KIND: &str = "validatingwebhookconfiguration.admissionregistration.k8s.io";
const REGISTERS: &str = "referenceregisters.dependencies.opendefense.cloud";
const REQUEST: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let live = ApiServer::open(global).await?;
    let control_plane = live.control_plane();
    if args.crd && control_plane == ControlPlane::Kcp {
        return Err(Failure::new("--crd is for plain Kubernetes only")
            .hint("in kcp rules go with the bindings: `kubectl delete apibinding` in each provider's workspace"));
    }
    if args.dry_run == Some(DryRun::Server) && control_plane == ControlPlane::Kcp {
        return Err(Failure::new("--dry-run=server is for plain Kubernetes only").hint("use --dry-run=client"));
    }
    let mut done = Removal {
        targets: Targets::default(),
        deleted_names: Vec::new(),
        notes: BTreeSet::new(),
        dry_run: args.dry_run,
    };
    match args.dry_run {
        Some(_) => done.preview(&live, terminal).await?,
        None if !is_meant(&args, &live, terminal).await? => return Ok(Outcome::Finding),
        None => {
            let progress = terminal.progress("removing webhook configurations");
            let removed = configurations(&args, global, control_plane).await;
            drop(progress);
            let removed = removed?;
            done.notes = removed.notes;
            for Removed { configuration, place, .. } in removed.removed {
                let place = if control_plane == ControlPlane::Kcp { format!(" in {place}") } else { String::new() };
                done.say(format!("{KIND}/{configuration}"), &place, terminal)?;
            }
            done.say_registers(removed.registers, terminal)?;
        }
    }
    let namespace = own_namespace(global);
    match control_plane {
        ControlPlane::Kubernetes => {
            done.targets.cluster = Some(live.endpoint());
            let mut items = [objects::rights(&namespace), of_processes(control_plane, &namespace)?].concat();
            items.extend(args.crd.then(of_packs).into_iter().flatten());
            done.remove(items, args.crd, terminal).await?;
            done.rules(&live.endpoint(), args.crd).await;
        }
        ControlPlane::Kcp => done.in_kcp(&args, &live, global, terminal).await?,
    }
    if done.deleted_names.is_empty() {
        terminal.out().write_all(b"there was nothing to remove\n")?;
    }
    for note in done.notes {
        terminal.note(&note)?;
    }
    Ok(Outcome::Well)
}

/// Asks the user whether to go on.
async fn is_meant(args: &Args, live: &ApiServer, terminal: &mut Terminal) -> Result<bool, Failure> {
    if args.yes {
        return Ok(true);
    }
    if !terminal.is_interactive() {
        return Err(Failure::new("nothing was removed: without a terminal, uninstall can't ask for confirmation")
            .hint("add --yes to remove without a question, or --dry-run=client to see the removals"));
    }
    // The number of rules makes the question clearer, but the question works without it.
    let mut unread = Vec::new();
    let rules = match rules::read(live, &mut unread).await.map(|found| found.count()) {
        Ok(1) if unread.is_empty() => "1 rule".to_owned(),
        Ok(count) if unread.is_empty() => format!("{count} rules"),
        Ok(_) | Err(_) => "rules".to_owned(),
    };
    let question = match args.crd {
        true => format!("Remove depguard and delete {rules}? After that, nothing is refused any more."),
        false => format!("Remove depguard? After that, its {rules} protect nothing."),
    };
    let is_meant = terminal.ask(&question)?;
    if !is_meant {
        terminal.note("nothing was removed")?;
    }
    Ok(is_meant)
}

/// Removes the webhook configurations, which refuse deletions, before anything else. If that fails, nothing else is
/// removed.
async fn configurations(
    args: &Args,
    global: &Global,
    control_plane: ControlPlane,
) -> Result<depguard_controller::Uninstalled, Failure> {
    let export = ExportName::parse(api::GROUP).map_err(Failure::new)?;
    let given = global.namespace.as_ref().filter(|_| control_plane == ControlPlane::Kubernetes);
    let options = global.connect_options(control_plane)?;
    let what = Uninstall::new(control_plane, export)
        .kubeconfig(options.kubeconfig)
        .context(options.context)
        .overrides(options.overrides)
        .request_timeout(options.request_timeout)
        .request_log(options.request_log)
        .leader_election_namespace(given.map(ToString::to_string))
        .leader_election_id(args.leader_election_id.clone())
        .timeout(Duration::from_secs(args.timeout));
    depguard_controller::uninstall(what).await.map_err(|why| {
        let failure = Failure::new(format!("nothing else was removed: {why}"));
        match why {
            UninstallError::Connect(_) => failure,
            _ => failure.hint("the processes still run and decide; correct this, and run it again"),
        }
    })
}

/// Returns the objects of the processes with every possible issuer of their certificate, and the Secrets of a
/// certificate that `install` made.
fn of_processes(control_plane: ControlPlane, namespace: &str) -> Result<Vec<Item>, Failure> {
    let names = Names {
        control_plane,
        namespace: namespace.to_owned(),
        image: String::new(),
        tls_secret: chart::TLS_SECRET.to_owned(),
        webhook_url: None,
        read_through: ReadThrough::default(),
    };
    let mut items = objects::processes(&names, Some(&Issuer::Own))?;
    items.extend([chart::TLS_SECRET, chart::CA_SECRET].map(|name| Item {
        place: Place::Cluster,
        object: objects::secret(namespace, name, &Value::Null, &Value::Null),
    }));
    Ok(items)
}

/// Returns the ClusterRoles of all packs, of which nobody remembers whether they were applied.
fn of_packs() -> impl Iterator<Item = Item> {
    let packs = RulePack::all().iter().filter(|pack| pack.control_plane == ControlPlane::Kubernetes);
    let objects = packs.flat_map(manifests::pack_objects).filter(|object| text(object, "/kind") == "ClusterRole");
    objects.map(|object| Item { place: Place::Cluster, object })
}

/// Returns the position of an object's kind in the order of removal: first what runs, then the objects that it needs.
/// All other kinds, such as the namespace, come last.
fn turn(object: &Value) -> usize {
    const TURNS: [&str; 14] = [
        "Deployment",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Service",
        "Certificate",
        "Issuer",
        "Secret",
        "ClusterRoleBinding",
        "RoleBinding",
        "ClusterRole",
        "Role",
        "ServiceAccount",
        "ConfigMap",
        "CustomResourceDefinition",
    ];
    TURNS.iter().position(|kind| *kind == text(object, "/kind")).unwrap_or(TURNS.len())
}

struct Removal {
    targets: Targets,
    deleted_names: Vec<String>,
    notes: BTreeSet<String>,
    dry_run: Option<DryRun>,
}

impl Removal {
    /// Prints that something was deleted, or would be.
    fn say(&mut self, name: String, place: &str, terminal: &mut Terminal) -> Result<(), Failure> {
        let what = match self.dry_run {
            None => "deleted",
            Some(DryRun::Client) => "would be deleted",
            Some(DryRun::Server) => "would be deleted (server dry run)",
        };
        writeln!(terminal.out(), "{name} {what}{place}")?;
        self.deleted_names.push(name);
        Ok(())
    }

    /// Prints the webhook configurations that would be deleted.
    async fn preview(&mut self, live: &ApiServer, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut unread = Vec::new();
        let found = rules::read(live, &mut unread).await?;
        if let Some(unread) = unread.first() {
            return Err(Failure::new(format!("could not read {}: {}", unread.what, unread.why))
                .hint("get that right, which the preview needs"));
        }
        for found in found.configurations {
            let cluster = text(&found, "/metadata/annotations/kcp.io~1cluster");
            let place = if cluster.is_empty() { String::new() } else { format!(" in workspace {cluster}") };
            let name = text(&found, "/metadata/name");
            if self.dry_run == Some(DryRun::Server) {
                let gone = live.endpoint().delete_dry_run(&format!("{}/{name}", rules::CONFIGURATIONS)).await;
                gone.map(drop).map_err(|why| Failure::new(format!("{KIND}/{name}: {why}")).hint(next_step(&why)))?;
            }
            self.say(format!("{KIND}/{name}"), &place, terminal)?;
        }
        self.preview_registers(&live.endpoint(), terminal).await
    }

    /// Prints the number of reference registers that would be deleted.
    async fn preview_registers(&mut self, endpoint: &Endpoint, terminal: &mut Terminal) -> Result<(), Failure> {
        let collection = RegisterName::collection();
        let found = match endpoint.within(REQUEST).list_json(&collection).await {
            Ok(list) => list.items,
            Err(why) if why.is_not_found() || why.status() == Some(403) => return Ok(()),
            Err(why) => return Err(Failure::new(format!("could not list {REGISTERS}: {why}")).hint(next_step(&why))),
        };
        let mut count = 0;
        for name in found.iter().map(|register| text(register, "/metadata/name")) {
            match self.dry_run {
                Some(DryRun::Server) => match endpoint.delete_dry_run(&format!("{collection}/{name}")).await {
                    Ok(_) => count += 1,
                    Err(why) => _ = self.notes.insert(format!("ReferenceRegister {name} would stay: {why}")),
                },
                _ => count += 1,
            }
        }
        self.say_registers(count, terminal)
    }

    fn say_registers(&mut self, count: usize, terminal: &mut Terminal) -> Result<(), Failure> {
        if count == 0 { Ok(()) } else { self.say(format!("{count} {REGISTERS}"), "", terminal) }
    }

    /// Deletes those of the objects that exist and were made by `install`.
    async fn remove(&mut self, mut items: Vec<Item>, crd: bool, terminal: &mut Terminal) -> Result<(), Failure> {
        items.sort_by_key(|item| turn(&item.object));
        for item in items {
            let Some(endpoint) = self.targets.endpoint(&item.place) else { continue };
            let (path, name, place) = (path_of(&item.object)?, shown(&item.object), item.place.shown());
            let found = match endpoint.get_json(&path).await {
                Ok(found) if found.pointer("/metadata/deletionTimestamp").is_none() => found,
                Ok(_) => continue,
                Err(why) if why.is_not_found() => continue,
                Err(why) => return Err(failed(&name, why)),
            };
            let kind = text(&item.object, "/kind");
            if kind == "CustomResourceDefinition" && !crd {
                continue;
            }
            // The CRD is deleted because the user asked for that, whoever made it.
            if !is_made_for(&item.object, &found) && kind != "CustomResourceDefinition" {
                let whose = if is_ours(&item.object) { "install did not make it" } else { "it is no pack's" };
                self.notes.insert(format!("{name}{place} stays: {whose}{}", maker(&found)));
                continue;
            }
            if kind == "Namespace"
                && let Some(holds) = holds(&endpoint, text(&found, "/metadata/name")).await
            {
                self.notes.insert(format!("{name} stays: {holds}"));
                continue;
            }
            let uid = found.pointer("/metadata/uid").and_then(Value::as_str);
            let deleted = match self.dry_run {
                None => endpoint.delete(&path, Preconditions { uid, resource_version: None }).await.map(drop),
                Some(DryRun::Client) => Ok(()),
                Some(DryRun::Server) => endpoint.delete_dry_run(&path).await.map(drop),
            };
            match deleted {
                Ok(()) => self.say(name, &place, terminal)?,
                Err(why) if why.is_not_found() => {}
                Err(why) => return Err(failed(&name, why)),
            }
        }
        Ok(())
    }

    /// Adds a note about the rules that stay.
    async fn rules(&mut self, endpoint: &Endpoint, deleted: bool) {
        let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
        if deleted {
            return;
        }
        let stay = match endpoint.within(REQUEST).list_json(&path).await.map(|list| list.items.len()) {
            Ok(1) => "1 rule, which protects nothing any more".to_owned(),
            Ok(count) => format!("{count} rules, which protect nothing any more"),
            Err(why) if why.is_not_found() => return,
            Err(_) => "all rules".to_owned(),
        };
        self.notes.insert(format!("{RULES} stays, with {stay}: --crd deletes them, and the ClusterRoles of packs"));
    }

    async fn in_kcp(
        &mut self,
        args: &Args,
        live: &ApiServer,
        global: &Global,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let namespace = &own_namespace(global);
        let own = live.connection().own_workspace().unwrap_or_default();
        let own = WorkspacePath::parse(own).map_err(Failure::new)?;
        for kubeconfig in &args.shard_kubeconfig {
            self.targets.shards.push(shard(kubeconfig, global).await?);
        }
        if let Some(kubeconfig) = &args.pods_kubeconfig {
            self.targets.cluster = Some(connect(kubeconfig, global).await?.own_endpoint());
        }
        self.targets.kcp = Some(live.connection().clone());
        let shards = self.targets.shards.len();
        let workspaces = Workspaces { own: own.clone(), cluster: None, providers: Vec::new(), shards };
        let stays = |item: &Item| ["APIExport", "APIResourceSchema"].contains(&text(&item.object, "/kind"));
        let mut items = objects::in_workspaces(&workspaces, ReadThrough::default());
        items.retain(|item| !stays(item));
        items.push(objects::namespace(namespace));
        items.extend(of_processes(ControlPlane::Kcp, namespace)?);
        self.remove(items, false, terminal).await?;
        self.notes.insert(format!(
            "the APIExport {} in workspace {own} and the providers' APIBindings stay: every rule would go with them",
            api::GROUP
        ));
        for (missing, deleted_names) in [
            (
                args.pods_kubeconfig.is_none(),
                "the processes stay where they run: name their cluster with --pods-kubeconfig",
            ),
            (shards == 0, "the rights on shards stay: name the shards' administrators with --shard-kubeconfig"),
        ] {
            if missing {
                self.notes.insert(deleted_names.to_owned());
            }
        }
        Ok(())
    }
}

/// Returns true if `found` is the object that was made by `item`: by `install`, or by anybody who applied a pack.
fn is_made_for(item: &Value, found: &Value) -> bool {
    let labels =
        |object: &Value| object.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let (own, its) = (labels(item), labels(found));
    is_ours(found)
        || !is_ours(item) && maker(found).is_empty() && own.iter().all(|(key, value)| its.get(key) == Some(value))
}

/// Names the Helm release that made an object, as the end of a sentence; empty if there is none.
fn maker(object: &Value) -> String {
    let release = object.pointer("/metadata/annotations/meta.helm.sh~1release-name").and_then(Value::as_str);
    release.map(|release| format!(", but the Helm release `{release}`: `helm uninstall {release}`")).unwrap_or_default()
}

/// Describes other objects in the namespace, which would be deleted with it; `None` if there are none.
async fn holds(endpoint: &Endpoint, namespace: &str) -> Option<String> {
    const KINDS: [&str; 5] =
        ["/api/v1 pods", "/api/v1 secrets", "/api/v1 configmaps", "/api/v1 services", "/apis/apps/v1 deployments"];
    let mut others = Vec::new();
    for kind in KINDS {
        let (root, plural) = kind.split_once(' ').unwrap_or_default();
        let list = match endpoint.list_json(&format!("{root}/namespaces/{namespace}/{plural}")).await {
            Ok(list) => list,
            Err(why) if why.is_not_found() => continue,
            // A namespace is kept if its content can't be read.
            Err(why) => return Some(format!("could not list its {plural} ({why})")),
        };
        let is_other = |object: &&Value| {
            let label = |name: &str| object.pointer(&format!("/metadata/labels/app.kubernetes.io~1{name}"));
            let is_depguards_pod = plural == "pods" && label("name").is_some_and(|name| name == "depguard");
            let is_going = object.pointer("/metadata/deletionTimestamp").is_some();
            let is_given = text(object, "/metadata/name") == "kube-root-ca.crt";
            !(is_ours(object) || is_depguards_pod || is_going || is_given)
        };
        let singular = plural.trim_end_matches('s');
        others.extend(
            list.items.iter().filter(is_other).map(|object| format!("{singular}/{}", text(object, "/metadata/name"))),
        );
    }
    let first = others.first()?;
    Some(match others.len() {
        1 => format!("it contains {first}"),
        more => format!("it contains {first} and {} more", more.saturating_sub(1)),
    })
}

fn failed(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{name}: {why}")).hint("nothing refuses deletions any more; run it again for the rest")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::resource_path;

    #[test]
    fn what_runs_goes_first_and_its_namespace_last() {
        let mut items = [objects::rights("n"), of_processes(ControlPlane::Kubernetes, "n").unwrap()].concat();
        items.sort_by_key(|item| turn(&item.object));
        let kinds: Vec<_> = items.iter().map(|item| text(&item.object, "/kind")).collect();
        assert_eq!(kinds[..2], ["Deployment", "Deployment"]);
        assert_eq!(kinds.last(), Some(&"Namespace"));
        assert!(items.iter().all(|item| resource_path::path(&item.object).is_some()));
    }
}
