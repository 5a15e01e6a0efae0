//! Order in which a GlobalOwner would remove its groups.

use depguard_controller::owners::{Plan, PlannedGroup, Preview};
use depguard_core::owners::{GLOBAL_OWNERS, GROUP};
use depguard_core::{ControlPlane, GroupVersionResource, Rule};

use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::Format;
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;

/// Prints the order; nothing is deleted.
pub(super) async fn run(
    name: &str,
    source: &Source,
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<Outcome, Failure> {
    let rules = source.rules().await?;
    if rules.control_plane == ControlPlane::Kcp {
        return Err(Failure::new("there are no GlobalOwners in kcp").hint("name a workspace to order its objects"));
    }
    let kinds = source.kinds().await?;
    let kind = kinds
        .find(&format!("{GLOBAL_OWNERS}.{GROUP}"))
        .map_err(|why| if kinds.is_whole() { none(name) } else { why })?;
    let object = source.object(kind, None, name).await?.ok_or_else(|| none(name))?;
    let outlook = Preview::from_owner(&object)
        .map_err(|why| Failure::new(why).hint("correct it; until then it adopts nothing"))?;
    let Some(mut outlook) = outlook else { return Err(none(name)) };
    let resources: Vec<_> = outlook.resources().into_iter().cloned().collect();
    let mut is_incomplete = !rules.unread.is_empty();
    for unread in &rules.unread {
        terminal.note(&format!("could not read {unread}"))?;
    }
    for resource in resources {
        is_incomplete |= !count(&resource, &mut outlook, source, terminal).await?;
    }
    let (usable, broken) = parsed(&rules);
    let plan = outlook.plan(&usable);
    print(&plan, format, terminal)?;
    for cycle in &plan.cycles {
        let kinds: Vec<_> = cycle.iter().map(String::as_str).collect();
        terminal.note(&format!("{} refer to each other in a cycle, and are removed together", kinds.join(", ")))?;
    }
    if broken > 0 {
        terminal.note(&format!("{broken} rules can't be used, and don't count: see `kubectl depguard lint`"))?;
    }
    if outlook.is_released() {
        terminal.note("its deletionPolicy is Orphan: its deletion releases all objects, and removes none")?;
    }
    match plan.cycles.is_empty() {
        false => Ok(Outcome::Finding),
        true if broken > 0 || is_incomplete => Err(Failure::new("the plan is incomplete: the notes above say why")
            .hint("correct the rules, or get the right to read the missing parts")),
        true => Ok(Outcome::Well),
    }
}

/// Counts the objects of a resource. Returns true if they could be read.
async fn count(
    resource: &GroupVersionResource,
    outlook: &mut Preview,
    source: &Source,
    terminal: &mut Terminal,
) -> Result<bool, Failure> {
    // The owner's version counts, whatever version of the kind is known.
    let known = source.kind_of(&resource.group_resource()).await?;
    let kind = match known {
        Some(known) => KindInfo { gvr: resource.clone(), ..known },
        None => KindInfo::bare(resource.clone(), resource.resource.as_str(), None),
    };
    let unread = source.objects(&kind, None, terminal, |object| outlook.count(resource, &object)).await?;
    match unread {
        Some(unread) => {
            terminal.note(&format!("could not read {unread}; counted as 0 objects"))?;
            Ok(false)
        }
        None => Ok(true),
    }
}

fn parsed(rules: &Rules) -> (Vec<Rule>, usize) {
    let (usable, broken): (Vec<_>, Vec<_>) = rules.parsed().partition(Result::is_ok);
    (usable.into_iter().flatten().collect(), broken.len())
}

impl CommandReport for Plan {
    const KIND: &'static str = "GlobalOwnerOrderReport";
}

fn print(plan: &Plan, format: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => return print_json(plan, terminal),
        Some(Format::Yaml) => return print_yaml(plan, terminal),
        Some(Format::Name) => {
            let groups = plan.waves.iter().flat_map(|wave| &wave.groups);
            let name = |group: &PlannedGroup| match &group.group_owner {
                Some(name) => format!("groupowner/{name}\n"),
                None => format!("{}\n", group.resource),
            };
            let names: String = groups.map(name).collect();
            return Ok(terminal.out().write_all(names.as_bytes())?);
        }
        None | Some(Format::Wide) => {}
    }
    let mut table = match format {
        None => Table::new(["WAVE", "RESOURCE", "OBJECTS"]),
        Some(_) => Table::new(["WAVE", "RESOURCE", "OBJECTS", "GROUPOWNER"]),
    };
    for wave in &plan.waves {
        for group in &wave.groups {
            let objects = group.objects.map(|objects| objects.to_string()).unwrap_or_default();
            let mut row = vec![wave.wave.to_string(), group.resource.clone(), objects];
            if format.is_some() {
                row.push(group.group_owner.clone().unwrap_or_default());
            }
            table.push(row);
        }
    }
    table.print(terminal)
}

fn none(name: &str) -> Failure {
    Failure::new(format!("there is no GlobalOwner `{name}`"))
        .hint("find it with `kubectl get globalowners`, or name its file with -f")
}

/// Returns true if the word names the kind.
pub(super) fn is_global_owner(word: &str) -> bool {
    let word = word.to_lowercase();
    let kind = word.strip_suffix(&format!(".{GROUP}")).unwrap_or(&word);
    matches!(kind, "globalowner" | GLOBAL_OWNERS)
}
