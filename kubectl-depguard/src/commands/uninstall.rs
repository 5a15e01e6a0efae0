//! `uninstall`: first what refuses, then the rest.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use depguard_controller::manifests::ReadThrough;
use depguard_controller::{Removed, Uninstall, UninstallError};
use depguard_core::{ExportName, Home, WorkspacePath, api};
use depguard_kcp::{Endpoint, Preconditions};
use serde_json::Value;

use super::install::address::{shown, text};
use super::install::chart::{self, Issuer, Names};
use super::install::objects::{self, Item, Place, Workspaces, is_ours};
use super::install::{Targets, connect, own_namespace, path_of, shard};
use super::status::rules;
use crate::cli::{DryRun, Global};
use crate::live::{Live, next_step};
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;

/// Uninstall depguard, also while its webhook is dead
///
/// First every webhook configuration goes, so that nothing is refused any more; controllers that still run are told to
/// write no more. Only then what `install` made: the processes, their certificate, rights and accounts, and the namespace,
/// depguard-system or the one of -n, where nothing else is in it. What Helm or somebody else made is left alone and named.
///
/// Asks before anything is removed; where nobody is there to be asked, --yes says it.
///
/// Rules stay, and say nothing any more, unless --crd is given. In home kcp the kubeconfig must point at depguard's own
/// workspace; its APIExport and the providers' bindings stay, as rules would go with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Home kubernetes: delete the CustomResourceDefinition too, and with it every DependencyRule
    #[arg(long)]
    crd: bool,

    /// Home kcp: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<PathBuf>,

    /// Home kcp: kubeconfig of a shard's administrator, to take back rights on it; may be repeated
    #[arg(long, value_name = "FILE")]
    shard_kubeconfig: Vec<PathBuf>,

    /// Only say what would be removed (client), or in home kubernetes have the server try it (server)
    #[arg(long, value_enum, value_name = "WHO")]
    dry_run: Option<DryRun>,

    /// Don't ask
    #[arg(short, long)]
    yes: bool,

    /// Name of the controllers' Lease, where they were given one
    #[arg(long, value_name = "NAME", default_value = "depguard-controller")]
    leader_election_id: String,

    /// Seconds after which to give up on the webhook configurations
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
}

const RULES: &str = "customresourcedefinition.apiextensions.k8s.io/dependencyrules.dependencies.opendefense.cloud";
const KIND: &str = "validatingwebhookconfiguration.admissionregistration.k8s.io";
const REQUEST: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let live = Live::open(global).await?;
    let home = live.home();
    if args.crd && home == Home::Kcp {
        return Err(Failure::new("--crd is for home kubernetes only")
            .hint("in kcp rules go with the bindings: `kubectl delete apibinding` in each provider's workspace"));
    }
    if args.dry_run == Some(DryRun::Server) && home == Home::Kcp {
        return Err(
            Failure::new("in home kcp no server tries what goes in all workspaces").hint("say --dry-run=client")
        );
    }
    let mut done =
        Removal { targets: Targets::default(), said: Vec::new(), notes: BTreeSet::new(), dry_run: args.dry_run };
    match args.dry_run {
        Some(_) => done.preview(&live, terminal).await?,
        None if !is_meant(&args, &live, terminal).await? => return Ok(Outcome::Finding),
        None => {
            let progress = terminal.progress("removing webhook configurations");
            let removed = configurations(&args, global, home).await;
            drop(progress);
            let removed = removed?;
            done.notes = removed.notes;
            for Removed { configuration, place, .. } in removed.removed {
                let place = if home == Home::Kcp { format!(" in {place}") } else { String::new() };
                done.say(format!("{KIND}/{configuration}"), &place, terminal)?;
            }
        }
    }
    let namespace = own_namespace(global);
    match home {
        Home::Kubernetes => {
            done.targets.cluster = Some(live.endpoint());
            let items = [objects::rights(&namespace), of_processes(home, &namespace)?].concat();
            done.remove(items, args.crd, terminal).await?;
            done.rules(&live.endpoint(), args.crd).await;
        }
        Home::Kcp => done.in_kcp(&args, &live, &namespace, terminal).await?,
    }
    if done.said.is_empty() {
        terminal.out().write_all(b"there was nothing to remove\n")?;
    }
    for note in done.notes {
        terminal.note(&note)?;
    }
    Ok(Outcome::Well)
}

/// Asks whether to go on.
async fn is_meant(args: &Args, live: &Live, terminal: &mut Terminal) -> Result<bool, Failure> {
    if args.yes {
        return Ok(true);
    }
    if !terminal.is_interactive() {
        return Err(Failure::new("nothing was removed, since nobody is there to be asked")
            .hint("say --yes to remove without being asked, or --dry-run=client to see what would be"));
    }
    // How many there are makes the question clearer, and is not needed to ask it.
    let rules = match rules::read(live, &mut Vec::new()).await.map(|found| found.count()) {
        Ok(1) => "1 rule".to_owned(),
        Ok(count) => format!("{count} rules"),
        Err(_) => "rules".to_owned(),
    };
    let question = match args.crd {
        true => format!("Remove depguard and delete {rules}? Nothing is refused any more then."),
        false => format!("Remove depguard? Its {rules} protect nothing any more then."),
    };
    let is_meant = terminal.ask(&question)?;
    if !is_meant {
        terminal.note("nothing was removed")?;
    }
    Ok(is_meant)
}

/// What refuses deletions goes before anything else; where it can't, nothing else does.
async fn configurations(args: &Args, global: &Global, home: Home) -> Result<depguard_controller::Uninstalled, Failure> {
    let export = ExportName::parse(api::GROUP).map_err(Failure::new)?;
    let given = global.namespace.as_ref().filter(|_| home == Home::Kubernetes);
    let what = Uninstall::new(home, export)
        .kubeconfig(global.kubeconfig.clone())
        .context(global.context.clone())
        .leader_election_namespace(given.map(ToString::to_string))
        .leader_election_id(args.leader_election_id.clone())
        .timeout(Duration::from_secs(args.timeout));
    depguard_controller::uninstall(what).await.map_err(|why| {
        let failure = Failure::new(format!("nothing else was removed: {why}"));
        match why {
            UninstallError::Connect(_) => failure,
            _ => failure.hint("the processes still run and decide; run it again once that is put right"),
        }
    })
}

/// The processes, whoever makes their certificate, and the Secrets of one that was made here.
fn of_processes(home: Home, namespace: &str) -> Result<Vec<Item>, Failure> {
    let names = Names {
        home,
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

/// In which order kinds go: what runs, then what it runs by, and last where it ran.
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
    said: Vec<String>,
    notes: BTreeSet<String>,
    dry_run: Option<DryRun>,
}

impl Removal {
    /// Says that something was deleted, or would be.
    fn say(&mut self, name: String, place: &str, terminal: &mut Terminal) -> Result<(), Failure> {
        let what = match self.dry_run {
            None => "deleted",
            Some(DryRun::Client) => "would be deleted",
            Some(DryRun::Server) => "would be deleted, as the server says",
        };
        writeln!(terminal.out(), "{name} {what}{place}")?;
        self.said.push(name);
        Ok(())
    }

    /// Says which webhook configurations would go.
    async fn preview(&mut self, live: &Live, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut unread = Vec::new();
        let found = rules::read(live, &mut unread).await?;
        if let Some(unread) = unread.iter().find(|unread| unread.is_vital) {
            return Err(Failure::new(format!("could not look at {}: {}", unread.what, unread.why))
                .hint("get that right, or nobody can say what would go"));
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
        Ok(())
    }

    /// Deletes what is there and was made by install.
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
            // The rules' kind is deleted because somebody said so, whoever made it.
            if !is_ours(&found) && kind != "CustomResourceDefinition" {
                self.notes.insert(format!("{name}{place} stays: install did not make it{}", maker(&found)));
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

    /// Says what becomes of the rules.
    async fn rules(&mut self, endpoint: &Endpoint, deleted: bool) {
        let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
        if deleted {
            return;
        }
        match endpoint.within(REQUEST).list_json(&path).await {
            Ok(list) => {
                let count = list.items.len();
                let rules = if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") };
                self.notes
                    .insert(format!("{RULES} stays, with {rules}, which protect nothing now: --crd deletes them"));
            }
            Err(why) if why.is_not_found() => {}
            Err(_) => _ = self.notes.insert(format!("{RULES} stays, with all rules: --crd deletes them")),
        }
    }

    async fn in_kcp(
        &mut self,
        args: &Args,
        live: &Live,
        namespace: &str,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let own = live.connection().home_workspace().unwrap_or_default();
        let own = WorkspacePath::parse(own).map_err(Failure::new)?;
        for kubeconfig in &args.shard_kubeconfig {
            self.targets.shards.push(shard(kubeconfig).await?);
        }
        if let Some(kubeconfig) = &args.pods_kubeconfig {
            self.targets.cluster = Some(connect(kubeconfig, Home::Kubernetes).await?.home());
        }
        self.targets.kcp = Some(live.connection().clone());
        let shards = self.targets.shards.len();
        let workspaces = Workspaces { own: own.clone(), cluster: None, providers: Vec::new(), shards };
        let stays = |item: &Item| ["APIExport", "APIResourceSchema"].contains(&text(&item.object, "/kind"));
        let mut items = objects::in_workspaces(&workspaces, ReadThrough::default());
        items.retain(|item| !stays(item));
        items.push(objects::namespace(namespace));
        items.extend(of_processes(Home::Kcp, namespace)?);
        self.remove(items, false, terminal).await?;
        self.notes.insert(format!(
            "the APIExport {} in workspace {own} and the providers' APIBindings stay, as every rule would go with them",
            api::GROUP
        ));
        for (missing, said) in [
            (
                args.pods_kubeconfig.is_none(),
                "the processes stay where they run: name their cluster by --pods-kubeconfig",
            ),
            (shards == 0, "the rights on shards stay: name the shards' administrators by --shard-kubeconfig"),
        ] {
            if missing {
                self.notes.insert(said.to_owned());
            }
        }
        Ok(())
    }
}

/// Who else made an object, where it says so.
fn maker(object: &Value) -> String {
    let release = object.pointer("/metadata/annotations/meta.helm.sh~1release-name").and_then(Value::as_str);
    release.map(|release| format!(", but the Helm release `{release}`: `helm uninstall {release}`")).unwrap_or_default()
}

/// What else is in the namespace, that would go with it. `None`: nothing.
async fn holds(endpoint: &Endpoint, namespace: &str) -> Option<String> {
    const KINDS: [&str; 5] =
        ["/api/v1 pods", "/api/v1 secrets", "/api/v1 configmaps", "/api/v1 services", "/apis/apps/v1 deployments"];
    let mut others = Vec::new();
    for kind in KINDS {
        let (root, plural) = kind.split_once(' ').unwrap_or_default();
        let list = match endpoint.list_json(&format!("{root}/namespaces/{namespace}/{plural}")).await {
            Ok(list) => list,
            Err(why) if why.is_not_found() => continue,
            // What can't be seen is not deleted.
            Err(why) => return Some(format!("it could not be seen whether it holds other {plural} ({why})")),
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
        1 => format!("it holds {first}"),
        more => format!("it holds {first} and {} more", more.saturating_sub(1)),
    })
}

fn failed(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{name}: {why}")).hint("nothing refuses deletions any more; run it again for the rest")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::install::address;

    #[test]
    fn what_runs_goes_first_and_its_namespace_last() {
        let mut items = [objects::rights("n"), of_processes(Home::Kubernetes, "n").unwrap()].concat();
        items.sort_by_key(|item| turn(&item.object));
        let kinds: Vec<_> = items.iter().map(|item| text(&item.object, "/kind")).collect();
        assert_eq!(kinds[..2], ["Deployment", "Deployment"]);
        assert_eq!(kinds.last(), Some(&"Namespace"));
        assert!(items.iter().all(|item| address::path(&item.object).is_some()));
    }
}
