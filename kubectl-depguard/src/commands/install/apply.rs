//! Applies objects one by one, and reports the change of each.

use std::time::Duration;

use depguard_kcp::{ApiError, Connection, Endpoint};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::objects::{Item, MANAGER, Place};
use crate::cluster::resource_path::{namespace, path, shown, text};
use crate::io::exit::Failure;
use crate::io::output::{Format, print_json, print_yaml};
use crate::io::terminal::Terminal;
use crate::options::DryRun;

/// Timeout of one request.
const REQUEST: Duration = Duration::from_secs(30);
/// Limit on the wait until something new is served.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);

/// Endpoints to which objects are applied.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Cluster of the processes.
    pub(crate) cluster: Option<Endpoint>,
    pub(crate) kcp: Option<Connection>,
    /// `system:admin` of each shard that the user named.
    pub(crate) shards: Vec<Endpoint>,
}

/// Change of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Created,
    Configured,
    Unchanged,
    /// The dry run could not try the object.
    Untried,
}

/// Applies objects with the user's options.
#[derive(Debug)]
pub(crate) struct Applier {
    pub(crate) targets: Targets,
    pub(crate) dry_run: Option<DryRun>,
    /// True to take over fields that somebody else owns.
    pub(crate) force: bool,
    pub(crate) output: Option<Format>,
    done: Vec<(Place, Value)>,
    /// Objects that did not exist before.
    made: Vec<(Place, Value)>,
}

impl Targets {
    /// Returns the endpoint of a place; `None` if nothing leads there.
    pub(crate) fn endpoint(&self, place: &Place) -> Option<Endpoint> {
        let endpoint = match place {
            Place::Cluster => self.cluster.clone(),
            Place::Workspace(path) => self.kcp.as_ref().map(|kcp| kcp.workspace(path)),
            Place::Shard(number) => self.shards.get(*number).cloned(),
            Place::Nowhere(_) => None,
        };
        endpoint.map(|endpoint| endpoint.within(REQUEST))
    }
}

impl Applier {
    pub(crate) fn new(targets: Targets, dry_run: Option<DryRun>, force: bool, output: Option<Format>) -> Self {
        Self { targets, dry_run, force, output, done: Vec::new(), made: Vec::new() }
    }

    /// Applies all objects, unless one of them belongs to a Helm release.
    pub(crate) async fn apply(&mut self, items: &[Item], terminal: &mut Terminal) -> Result<(), Failure> {
        if self.dry_run == Some(DryRun::Client) {
            for item in items {
                self.report(item, &item.object, Change::Created, terminal)?;
            }
            return Ok(());
        }
        let mut known = Vec::new();
        for item in items {
            known.push(match self.targets.endpoint(&item.place) {
                Some(endpoint) => self.existing(&endpoint, item).await?,
                None => None,
            });
        }
        for (item, known) in items.iter().zip(known) {
            let Some(endpoint) = self.targets.endpoint(&item.place) else { continue };
            if self.dry_run.is_some() && self.lacks_its_place(item) {
                self.report(item, &item.object, Change::Untried, terminal)?;
                continue;
            }
            let written = self.write(&endpoint, item, self.dry_run.is_some()).await?;
            let change = match &known {
                None => Change::Created,
                Some(known) if content(known) == content(&written) => Change::Unchanged,
                Some(_) => Change::Configured,
            };
            self.report(item, &written, change, terminal)?;
            if text(&item.object, "/kind") == "CustomResourceDefinition" && self.dry_run.is_none() {
                until_established(&endpoint, &item.object).await?;
            }
        }
        Ok(())
    }

    /// Has the API server try all objects, so that none is applied if some would be refused. The failure names all of these.
    pub(crate) async fn try_all(&self, items: &[Item]) -> Result<(), Failure> {
        if self.dry_run == Some(DryRun::Client) {
            return Ok(());
        }
        let mut failures = Vec::new();
        for item in items {
            let Some(endpoint) = self.targets.endpoint(&item.place) else { continue };
            failures.extend(self.write(&endpoint, item, true).await.err());
        }
        let number = failures.len();
        match Failure::joined(failures) {
            Some(failure) if number > 1 => Err(failure.about(&format!("nothing was applied, for {number} reasons"))),
            Some(failure) => Err(failure.about("nothing was applied")),
            None => Ok(()),
        }
    }

    /// Reports that an object is left unchanged.
    pub(crate) fn keep(&mut self, item: &Item, terminal: &mut Terminal) -> Result<(), Failure> {
        self.report(item, &item.object, Change::Unchanged, terminal)
    }

    /// Prints the applied objects, if the user asked for that.
    pub(crate) fn finish(self, terminal: &mut Terminal) -> Result<(), Failure> {
        match self.output {
            Some(Format::Json) => {
                let items: Vec<_> = self.done.into_iter().map(|(_, object)| object).collect();
                print_json(&json!({"apiVersion": "v1", "kind": "List", "items": items}), terminal)
            }
            Some(Format::Yaml) => {
                let mut last = None;
                for (place, object) in self.done {
                    terminal.out().write_all(b"---\n")?;
                    let said = place.shown();
                    if !said.is_empty() && last.as_ref() != Some(&place) {
                        terminal.out().write_all(format!("#{said}\n").as_bytes())?;
                    }
                    print_yaml(&object, terminal)?;
                    last = Some(place);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn existing(&self, endpoint: &Endpoint, item: &Item) -> Result<Option<Value>, Failure> {
        let path = path_of(&item.object)?;
        let found = match endpoint.get_json(&path).await {
            Ok(found) => found,
            Err(why) if why.is_not_found() => return Ok(None),
            Err(why) => return Err(refused(&item.object, &why)),
        };
        let release = found.pointer("/metadata/annotations/meta.helm.sh~1release-name").and_then(Value::as_str);
        // The CRD of the rules stays behind when its release is uninstalled.
        match release.filter(|_| text(&found, "/kind") != "CustomResourceDefinition") {
            Some(release) => Err(Failure::new(format!(
                "{} belongs to the Helm release `{release}`; nothing was changed",
                shown(&item.object)
            ))
            .hint("change it by `helm upgrade`, or uninstall that release first")),
            None => Ok(Some(found)),
        }
    }

    async fn write(&self, endpoint: &Endpoint, item: &Item, is_try: bool) -> Result<Value, Failure> {
        let mut path = path_of(&item.object)?;
        if is_try {
            path.push_str("?dryRun=All");
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match endpoint.apply(&path, &item.object, MANAGER, self.force).await {
                // A new workspace does not serve everything at once.
                Err(why) if in_workspace(item) && matches!(why.status(), Some(403 | 404)) && Instant::now() < end => {
                    sleep(PAUSE).await;
                }
                Err(why) => return Err(refused(&item.object, &why)),
                Ok(written) => return Ok(written),
            }
        }
    }

    /// Returns true if the object's namespace would be created first: a dry run can't try anything in it.
    fn lacks_its_place(&self, item: &Item) -> bool {
        let is = |(place, object): &(Place, Value), namespace: &str| {
            *place == item.place && text(object, "/kind") == "Namespace" && text(object, "/metadata/name") == namespace
        };
        namespace(&item.object).is_some_and(|namespace| self.made.iter().any(|made| is(made, namespace)))
    }

    fn report(&mut self, item: &Item, object: &Value, change: Change, terminal: &mut Terminal) -> Result<(), Failure> {
        if change == Change::Created {
            self.made.push((item.place.clone(), item.object.clone()));
        }
        let (name, place) = (shown(&item.object), item.place.shown());
        let how = match self.dry_run {
            None => "",
            Some(DryRun::Client) => " (dry run)",
            Some(DryRun::Server) => " (server dry run)",
        };
        let line = match change {
            Change::Created => format!("{name} created{place}{how}"),
            Change::Configured => format!("{name} configured{place}{how}"),
            Change::Unchanged => format!("{name} unchanged{place}{how}"),
            Change::Untried => format!("{name} not tried{place}: its namespace does not exist yet{how}"),
        };
        match self.output {
            Some(Format::Json | Format::Yaml) => {}
            Some(Format::Name) => terminal.out().write_all(format!("{name}\n").as_bytes())?,
            Some(Format::Wide) | None => terminal.out().write_all(format!("{line}\n").as_bytes())?,
        }
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        self.done.push((item.place.clone(), object));
        Ok(())
    }
}

fn in_workspace(item: &Item) -> bool {
    matches!(item.place, Place::Workspace(_))
}

pub(crate) fn path_of(object: &Value) -> Result<String, Failure> {
    path(object).ok_or_else(|| Failure::new(format!("{} is of a kind that install does not know", shown(object))))
}

/// Returns the part of an object that users set, without the API server's bookkeeping.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
    }
    object
}

async fn until_established(endpoint: &Endpoint, definition: &Value) -> Result<(), Failure> {
    let (path, end) = (path_of(definition)?, Instant::now() + PATIENCE);
    loop {
        let found = endpoint.get_json(&path).await.map_err(|why| refused(definition, &why))?;
        let mut conditions = found.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        if conditions.any(|condition| text(condition, "/type") == "Established" && text(condition, "/status") == "True")
        {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Failure::new(format!("{} is not served after {} s", shown(definition), PATIENCE.as_secs()))
                .hint("its conditions say why: `kubectl describe crd`; then run this again"));
        }
        sleep(PAUSE).await;
    }
}

/// Builds the failure for a refused request, with the next step.
fn refused(object: &Value, why: &ApiError) -> Failure {
    let failure = Failure::new(format!("{}: {why}", shown(object)));
    let is_of_cert_manager = text(object, "/apiVersion").starts_with("cert-manager.io/");
    match why.status() {
        Some(403) => {
            failure.hint("run it as an administrator: only a user with all rights of a role may create the role")
        }
        Some(404) if is_of_cert_manager => failure.hint("install cert-manager first, or leave --cert-manager out"),
        Some(409) => failure.hint("--force-conflicts takes over the fields of other managers"),
        _ => failure.hint("the objects applied so far stay; run it again"),
    }
}
