//! Rules that a pack applied before and has no more: rules of former names and, where the strict ones are applied, those
//! that only the default ones need. They go once the others are applied; a rule that somebody else wrote or changed stays.

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

/// Rules that packs had, on one API server.
pub(super) struct FormerRules {
    endpoint: Endpoint,
    control_plane: ControlPlane,
    dry_run: Option<DryRun>,
    all: Vec<FormerRule>,
}

/// Rule that a pack had.
struct FormerRule {
    /// Name that the rule has now; `None` if the strict rules do without it.
    name: Option<String>,
    /// The rule as the pack had it, under its former name.
    rule: Value,
}

/// Rule on the API server that has the name of a former one.
enum Stored {
    /// The pack's rule, as it was read.
    OfPack(Value),
    /// Rule that the pack doesn't replace; the text says why.
    OfOthers(String),
}

impl FormerRules {
    pub(super) fn new(live: &ApiServer, packs: &[&RulePack], dry_run: Option<DryRun>) -> Self {
        let renamed = packs.iter().flat_map(|pack| pack.formerly()).map(|(former, rule)| FormerRule {
            name: Some(text(&rule, "/metadata/name").to_owned()),
            rule: with_metadata(rule, json!({"name": former})),
        });
        let left_out = packs.iter().flat_map(|pack| by_default_only(pack)).map(|rule| FormerRule { name: None, rule });
        let (endpoint, control_plane) = (live.endpoint(), live.control_plane());
        Self { endpoint, control_plane, dry_run, all: renamed.chain(left_out).collect() }
    }

    /// Has the API server try all deletions, before anything is applied.
    pub(super) async fn try_deletions(&self) -> Result<(), Failure> {
        if self.dry_run == Some(DryRun::Client) {
            return Ok(());
        }
        for former in &self.all {
            if let Some(Stored::OfPack(_)) = self.read(former).await? {
                let tried = self.endpoint.delete_dry_run(&path_of(&former.rule)?).await;
                tried.map_err(|why| former.failed(&why).about("nothing was applied"))?;
            }
        }
        Ok(())
    }

    /// Returns the packs' former rules that are to go, each with the name of the rule that takes its place.
    pub(super) async fn stored(&self) -> Result<Vec<(Value, Option<&str>)>, Failure> {
        let mut stored = Vec::new();
        for former in &self.all {
            if let Some(Stored::OfPack(rule)) = self.read(former).await? {
                stored.push((rule, former.name.as_deref()));
            }
        }
        Ok(stored)
    }

    /// Deletes the packs' former rules, and tells which rules of these names stay.
    pub(super) async fn delete(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        for former in &self.all {
            if let Some(said) = self.delete_one(former).await? {
                terminal.note(&format!("{} {said}", shown(&former.rule)))?;
            }
        }
        Ok(())
    }

    /// Deletes a rule if the pack wrote it. Returns what became of a rule that was there.
    async fn delete_one(&self, former: &FormerRule) -> Result<Option<String>, Failure> {
        let (path, why) = (path_of(&former.rule)?, former.why());
        let stays = |why| Some(format!("stays beside {}: {why}", former.name.as_deref().unwrap_or("the strict rules")));
        for _ in 0..TRIES {
            let stored = match self.read(former).await? {
                None => return Ok(None),
                Some(Stored::OfOthers(why)) => return Ok(stays(&*why)),
                Some(Stored::OfPack(stored)) => stored,
            };
            let how = match self.dry_run {
                None => None,
                Some(DryRun::Client) => Some("dry run"),
                Some(DryRun::Server) => Some("server dry run"),
            };
            if let Some(how) = how {
                return Ok(Some(format!("would be deleted: {why} ({how})")));
            }
            let field = |name: &str| stored.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
            let only = Preconditions { uid: field("uid"), resource_version: field("resourceVersion") };
            match self.endpoint.delete(&path, only).await {
                Err(failed) if failed.status() == Some(409) => {}
                Err(failed) if !failed.is_not_found() => return Err(former.failed(&failed)),
                _ => return Ok(Some(format!("deleted: {why}"))),
            }
        }
        Ok(stays("others write it at the same time; run this again"))
    }

    async fn read(&self, former: &FormerRule) -> Result<Option<Stored>, Failure> {
        let stored = match self.endpoint.get_json(&path_of(&former.rule)?).await {
            Ok(stored) => stored,
            Err(why) if why.is_not_found() => return Ok(None),
            Err(why) => return Err(Failure::new(format!("{}: {why}", shown(&former.rule)))),
        };
        Ok(Some(match text(&stored, "/metadata/annotations/meta.helm.sh~1release-name") {
            "" if self.is_of_pack(&stored, &former.rule) => Stored::OfPack(stored),
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

impl FormerRule {
    fn why(&self) -> String {
        match &self.name {
            Some(name) => format!("its name is {name} now"),
            None => "the strict rules do without it".to_owned(),
        }
    }

    fn failed(&self, why: &ApiError) -> Failure {
        Failure::new(format!("{} can't be deleted, and {}: {why}", shown(&self.rule), self.why()))
            .hint("delete it yourself, or get the right to, and run this again")
    }
}

/// Returns the default rules of a pack that it does without: none, unless it has the strict ones.
fn by_default_only(pack: &RulePack) -> Vec<Value> {
    let own = pack.rules();
    let names: Vec<_> = own.iter().map(|rule| text(rule, "/metadata/name")).collect();
    let mut by_default = RulePack::by_name(pack.name).map(RulePack::rules).unwrap_or_default();
    by_default.retain(|rule| !names.contains(&text(rule, "/metadata/name")));
    by_default
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
