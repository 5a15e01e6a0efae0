//! Objects on the cluster that files name.

use std::collections::BTreeSet;

use depguard_core::model::Namespace;
use serde_json::Value;

use super::subject::Subject;
use crate::cluster::api_server::Lookup;
use crate::cluster::documents::Document;
use crate::cluster::files::{FileArgs, Files, skipped};
use crate::cluster::named_objects::NamedObject;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{AppliedEdge, print_unread};
use crate::io::exit::Failure;
use crate::io::output::some_of;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Reads the objects that have the kinds and names of those in the files, as far as rules name their kinds.
pub(super) async fn read(
    files: &FileArgs,
    with_dependents: bool,
    source: &Source,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<Subject, Failure> {
    let (edges, unread_rules) = AppliedEdge::from_rules(&source.rules().await?);
    if let Some(unread) = unread_rules.first() {
        return Err(Failure::new(format!("nothing was deleted: could not read {unread}"))
            .hint("get the right to read it, or correct it, and run the command again"));
    }
    let kinds: BTreeSet<_> = edges.iter().flat_map(|edge| [edge.dependent(), edge.target()]).collect();
    let known = source.kinds().await?;
    let (mut named, mut missing, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let Files { records, unread, others: foreign } = files.manifests(terminal)?;
    foreign.iter().try_for_each(|file| terminal.note(&skipped(file)))?;
    for record in records {
        let document = record.to_document()?;
        let Document { value, .. } = &document;
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let shown = || if name.is_empty() { document.shown() } else { format!("{kind}/{name}") };
        let Some(info) = known.of_object(text("/apiVersion"), kind) else {
            if let Some(unread) = known.unread().next() {
                return Err(Failure::new(format!("nothing was deleted: could not read {unread}"))
                    .hint("run it again once `kubectl api-resources` lists all kinds"));
            }
            others.push(shown());
            continue;
        };
        if !kinds.contains(&info.gvr.group_resource()) {
            others.push(shown());
            continue;
        }
        if name.is_empty() {
            return Err(Failure::new(format!("nothing was deleted: {} has no name", document.shown()))
                .hint("name only the other files with -f"));
        }
        let own = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        let namespace = match (info.namespaced, own) {
            (Some(false), _) => None,
            (_, Some(own)) => Some(Namespace::parse(own).map_err(Failure::new)?),
            (_, None) => source.namespace(global)?,
        };
        if namespace.is_none() && info.namespaced != Some(false) {
            return Err(Failure::new(format!(
                "-A does not say which object is meant: {kind} {name} is in a namespace"
            ))
            .hint("name its namespace with --namespace, or in the file"));
        }
        match source.look_up(info, namespace.as_ref().map(Namespace::as_str), name).await? {
            Lookup::Found(object) => {
                named.push(NamedObject { kind: info.clone(), namespace, name: name.to_owned(), object });
            }
            Lookup::Missing => missing.push(format!("{kind}/{name}")),
            Lookup::Unread(unread) => {
                return Err(Failure::new(format!("nothing was deleted: could not read {unread}"))
                    .hint("ask for the right to read it"));
            }
        }
    }
    if !others.is_empty() {
        terminal.note(&format!("no rule names the kinds of these objects, so they stay: {}", some_of(others, ", ")))?;
    }
    if !missing.is_empty() {
        terminal.note(&format!("not on the cluster: {}", some_of(missing, ", ")))?;
    }
    if named.is_empty() {
        print_unread(&unread, terminal)?;
        return Err(Failure::new("the cluster has none of the objects in the files whose kinds rules name")
            .hint("name other files with -f, or the namespace with --namespace"));
    }
    Ok(Subject::Objects { named, with_dependents, unread })
}
