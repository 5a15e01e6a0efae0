//! Rules that a pack applied under former names. They go once the rules of the new names are applied; a rule that somebody
//! else wrote or changed stays.

use depguard_controller::packs::RulePack;
use depguard_core::{ControlPlane, Rule};
use depguard_kcp::{ApiError, Endpoint, Preconditions};
use serde_json::{Value, json};

use crate::cluster::api_server::ApiServer;
use crate::cluster::resource_path::{shown, text};
use crate::commands::install::objects::MANAGER;
use crate::commands::install::path_of;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::DryRun;

/// Number of tries to delete a rule that others, such as the controller, write at the same time.
const TRIES: usize = 5;

/// Former names of the rules of packs, on one API server.
pub(super) struct FormerNames {
    endpoint: Endpoint,
    control_plane: ControlPlane,
    dry_run: Option<DryRun>,
    renamed: Vec<Renamed>,
}

/// Rule of a pack that had another name.
struct Renamed {
    name: String,
    /// The rule, under its former name.
    former: Value,
}

/// Rule on the API server that has a former name.
enum Stored {
    /// The pack's rule, as it was read.
    OfPack(Value),
    /// Rule that the pack doesn't replace; the text says why.
    OfOthers(String),
}

impl FormerNames {
    pub(super) fn new(live: &ApiServer, packs: &[&RulePack], dry_run: Option<DryRun>) -> Self {
        let renamed = packs.iter().flat_map(|pack| pack.formerly()).map(|(former, rule)| Renamed {
            name: text(&rule, "/metadata/name").to_owned(),
            former: with_metadata(rule, json!({"name": former})),
        });
        let (endpoint, control_plane) = (live.endpoint(), live.control_plane());
        Self { endpoint, control_plane, dry_run, renamed: renamed.collect() }
    }

    /// Has the API server try all deletions, before anything is applied.
    pub(super) async fn try_deletions(&self) -> Result<(), Failure> {
        if self.dry_run == Some(DryRun::Client) {
            return Ok(());
        }
        for renamed in &self.renamed {
            if let Some(Stored::OfPack(_)) = self.read(renamed).await? {
                let tried = self.endpoint.delete_dry_run(&path_of(&renamed.former)?).await;
                tried.map_err(|why| renamed.failed(&why).about("nothing was applied"))?;
            }
        }
        Ok(())
    }

    /// Returns the packs' rules of former names that are to go, each with the name of the rule that takes its place.
    pub(super) async fn stored(&self) -> Result<Vec<(Value, &str)>, Failure> {
        let mut stored = Vec::new();
        for renamed in &self.renamed {
            if let Some(Stored::OfPack(rule)) = self.read(renamed).await? {
                stored.push((rule, renamed.name.as_str()));
            }
        }
        Ok(stored)
    }

    /// Deletes the packs' rules of former names, and tells which rules of these names stay.
    pub(super) async fn delete(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        for renamed in &self.renamed {
            if let Some(said) = self.delete_one(renamed).await? {
                terminal.note(&format!("{} {said}", shown(&renamed.former)))?;
            }
        }
        Ok(())
    }

    /// Deletes a rule if the pack wrote it. Returns what became of a rule that was there.
    async fn delete_one(&self, renamed: &Renamed) -> Result<Option<String>, Failure> {
        let (path, name) = (path_of(&renamed.former)?, &renamed.name);
        for _ in 0..TRIES {
            let stored = match self.read(renamed).await? {
                None => return Ok(None),
                Some(Stored::OfOthers(why)) => return Ok(Some(format!("stays beside {name}: {why}"))),
                Some(Stored::OfPack(stored)) => stored,
            };
            let how = match self.dry_run {
                None => None,
                Some(DryRun::Client) => Some("dry run"),
                Some(DryRun::Server) => Some("server dry run"),
            };
            if let Some(how) = how {
                return Ok(Some(format!("would be deleted: its name is {name} now ({how})")));
            }
            let field = |name: &str| stored.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
            let only = Preconditions { uid: field("uid"), resource_version: field("resourceVersion") };
            match self.endpoint.delete(&path, only).await {
                Err(why) if why.status() == Some(409) => {}
                Err(why) if !why.is_not_found() => return Err(renamed.failed(&why)),
                _ => return Ok(Some(format!("deleted: its name is {name} now"))),
            }
        }
        Ok(Some(format!("stays beside {name}: others write it at the same time; run this again")))
    }

    async fn read(&self, renamed: &Renamed) -> Result<Option<Stored>, Failure> {
        let stored = match self.endpoint.get_json(&path_of(&renamed.former)?).await {
            Ok(stored) => stored,
            Err(why) if why.is_not_found() => return Ok(None),
            Err(why) => return Err(Failure::new(format!("{}: {why}", shown(&renamed.former)))),
        };
        Ok(Some(match text(&stored, "/metadata/annotations/meta.helm.sh~1release-name") {
            "" if self.is_of_pack(&stored, &renamed.former) => Stored::OfPack(stored),
            "" => Stored::OfOthers("it is not as the pack wrote it; delete it if nobody needs it".to_owned()),
            release => Stored::OfOthers(format!("it belongs to the Helm release `{release}`; take it out there")),
        }))
    }

    /// Returns true if a stored rule says what the pack says, or if nobody but this command wrote its spec, perhaps in a
    /// former version.
    fn is_of_pack(&self, stored: &Value, former: &Value) -> bool {
        let metadata = stored.get("metadata").cloned().unwrap_or_default();
        let parse = |rule: &Value| Rule::parse(self.control_plane, rule).ok();
        let same = parse(stored).is_some_and(|rule| Some(rule) == parse(&with_metadata(former.clone(), metadata)));
        same || is_written_only_by_this_command(stored)
    }
}

impl Renamed {
    fn failed(&self, why: &ApiError) -> Failure {
        Failure::new(format!("{} can't be deleted, and its name is {} now: {why}", shown(&self.former), self.name))
            .hint("delete it yourself, or get the right to, and run this again")
    }
}

fn is_written_only_by_this_command(stored: &Value) -> bool {
    let entries = stored.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let mut of_spec = entries.filter(|entry| entry.pointer("/fieldsV1/f:spec").is_some()).peekable();
    let is_ours = |entry: &Value| text(entry, "/manager") == MANAGER && text(entry, "/operation") == "Apply";
    of_spec.peek().is_some() && of_spec.all(is_ours)
}

pub(super) fn with_metadata(mut rule: Value, metadata: Value) -> Value {
    if let Some(fields) = rule.as_object_mut() {
        fields.insert("metadata".to_owned(), metadata);
    }
    rule
}
