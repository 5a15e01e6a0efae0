//! Data of a page, as its script reads them: lists of numbers and names, which a browser holds for 100,000 objects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{OnDelete, OnMissing};
use depguard_core::graph::DeletionOrder;
use depguard_core::lookup::ReferenceTarget;
use depguard_core::model::GroupResource;
use serde::Serialize;

use super::PageUse;
use crate::cluster::files::FileArgs;
use crate::engine::locks::Locks;
use crate::engine::reference_scan::{Object as ScannedObject, Scan};
use crate::io::exit::Failure;
use crate::io::graph_formats::{Arrow, BoxStyle, Graph, Rect, Shape};
use crate::options::Global;

/// Data of a page.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data {
    #[serde(flatten)]
    origin: Origin,
    kinds: Vec<Kind>,
    edges: Vec<Edge>,
    drawing: Drawing,
    namespaces: Vec<String>,
    objects: Vec<Object>,
    /// Dependent, target and edge of each reference.
    references: Vec<(usize, usize, usize)>,
    /// Dependent and edge of each reference that can't be resolved, and the reason.
    unclear: Vec<(usize, usize, String)>,
    /// Objects that protect each other, cycle by cycle.
    cycles: Vec<Vec<usize>>,
    /// Names of the locks of each locked object.
    locks: BTreeMap<usize, Vec<String>>,
    unread: Vec<String>,
    failure: Option<FailureText>,
}

/// Source of the objects, and the flags by which a command reads the same ones.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Origin {
    place: String,
    flags: String,
    kubectl_flags: String,
    is_served: bool,
}

/// Reason why there are no objects.
#[derive(Debug, Serialize)]
pub(super) struct FailureText {
    message: String,
    hint: Option<String>,
}

#[derive(Debug, Serialize)]
struct Kind {
    kind: String,
    resource: String,
}

/// Edge from the kind of dependents to the kind of targets; both are indexes in the kinds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    rule: String,
    from: usize,
    to: usize,
    field: String,
    on_delete: OnDelete,
    on_missing: OnMissing,
}

/// Drawing of the kinds.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Drawing {
    width: f64,
    height: f64,
    /// Number of kinds that are not drawn.
    left_out: usize,
    boxes: Vec<Place>,
    arrows: Vec<DrawnArrow>,
}

#[derive(Debug, Serialize)]
struct Place {
    kind: usize,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

#[derive(Debug, Serialize)]
struct DrawnArrow {
    path: String,
    x: f64,
    y: f64,
    lines: Vec<String>,
    dashed: bool,
}

/// Kind, namespace (-1 for none), name, flags and wave (-1 for none) of an object.
#[derive(Debug, Serialize)]
struct Object(usize, i64, String, u8, i64);

/// Number of kinds up to which kinds without objects are drawn, too.
const MAX_EMPTY_KINDS: usize = 20;
/// Limit on the kinds that are drawn together; each kind can be drawn with its neighbours.
const MAX_DRAWN_KINDS: usize = 40;
/// Flags of an object.
const TERMINATING: u8 = 1;
const MISSING: u8 = 2;

impl Origin {
    pub(super) fn new(global: &Global, files: &FileArgs, page_use: PageUse) -> Self {
        let is_served = page_use == PageUse::Served;
        if !files.is_empty() {
            let names: Vec<_> = files.filename.iter().map(|file| file.display().to_string()).collect();
            let mut flags: String = names.iter().map(|name| format!(" -f {}", quoted(name))).collect();
            flags += if files.recursive { " -R" } else { "" };
            return Self { place: names.join(", "), flags, kubectl_flags: String::new(), is_served };
        }
        let words = global.server_words();
        let word = |(flag, value): &(&str, Option<String>)| match value {
            Some(value) => format!(" {flag} {}", quoted(value)),
            None => format!(" {flag}"),
        };
        let flags: String = words.iter().map(word).collect();
        let place = global.context().map_or("current context".to_owned(), |name| format!("context {name}"));
        Self { place, kubectl_flags: flags.clone(), flags, is_served }
    }
}

impl FailureText {
    pub(super) fn new(failure: &Failure) -> Self {
        Self { message: failure.message().to_owned(), hint: failure.what_to_do().map(str::to_owned) }
    }
}

impl Data {
    pub(super) fn from_failure(failure: FailureText, origin: Origin) -> Self {
        Self { origin, failure: Some(failure), ..Self::default() }
    }

    /// Builds the data of a scan of all namespaces.
    pub(super) fn new(scan: &Scan, locks: &Locks, origin: Origin) -> Self {
        let mut data = Self { origin, unread: scan.coverage.missing().to_vec(), ..Self::default() };
        let mut kinds = Kinds::default();
        for applied in &scan.edges {
            data.edges.push(Edge {
                rule: applied.rule().name.clone(),
                from: kinds.index(&applied.dependent(), scan, &mut data.kinds),
                to: kinds.index(&applied.target(), scan, &mut data.kinds),
                field: applied.edge.field(),
                on_delete: applied.edge.on_delete,
                on_missing: applied.edge.on_missing,
            });
        }
        data.read_objects(scan, locks, &mut kinds);
        data.read_references(scan);
        data.order(scan);
        data.draw();
        data
    }

    fn read_objects(&mut self, scan: &Scan, locks: &Locks, kinds: &mut Kinds) {
        for (index, object) in scan.objects.iter().enumerate() {
            let kind = object.kind.gvr.group_resource();
            let by = locks.of(&kind, object.namespace(), object.name(), &object.referent.labels);
            if !by.is_empty() {
                self.locks.insert(index, by.into_iter().map(|lock| lock.lock).collect());
            }
            let kind = kinds.index(&kind, scan, &mut self.kinds);
            let namespace = kinds.namespace(object.namespace(), &mut self.namespaces);
            let flags = if object.terminating { TERMINATING } else { 0 };
            self.objects.push(Object(kind, namespace, object.name().to_owned(), flags, -1));
        }
        let mut missing = BTreeMap::new();
        for reference in &scan.references {
            let Some((target, namespace, name)) = scan.missing_target(reference) else { continue };
            let kind = kinds.index(&target, scan, &mut self.kinds);
            let at = *missing.entry((kind, namespace, name)).or_insert_with(|| {
                let namespace = kinds.namespace(namespace, &mut self.namespaces);
                self.objects.push(Object(kind, namespace, name.to_owned(), MISSING, -1));
                self.objects.len().saturating_sub(1)
            });
            self.references.push((reference.from, at, reference.edge));
        }
    }

    fn read_references(&mut self, scan: &Scan) {
        for reference in &scan.references {
            if let ReferenceTarget::Unclear { why, .. } = &*reference.means {
                self.unclear.push((reference.from, reference.edge, why.clone()));
            }
            self.references.extend(reference.holds.iter().map(|target| (reference.from, *target, reference.edge)));
        }
        self.references.sort_unstable();
        self.references.dedup();
    }

    /// Gives each object its wave, if it has one.
    fn order(&mut self, scan: &Scan) {
        let mut refers = vec![Vec::new(); scan.objects.len()];
        for (from, to, _) in scan.blocking() {
            if let Some(refers) = refers.get_mut(from) {
                refers.push(to);
            }
        }
        let order = DeletionOrder::new(&refers, |index| self.locks.contains_key(&index));
        for (wave, members) in order.waves.iter().enumerate() {
            for member in members {
                if let Some(object) = self.objects.get_mut(*member) {
                    object.4 = i64::try_from(wave).unwrap_or(i64::MAX);
                }
            }
        }
        self.cycles = order.cycles;
    }

    /// Draws the kinds and the edges between them. Of very many kinds, it draws those with the most objects.
    fn draw(&mut self) {
        let mut counts = vec![0_usize; self.kinds.len()];
        for object in self.objects.iter().filter(|object| object.3 & MISSING == 0) {
            if let Some(count) = counts.get_mut(object.0) {
                *count = count.saturating_add(1);
            }
        }
        let drawn = drawn_kinds(&counts);
        let shapes = drawn.iter().filter_map(|kind| {
            let lines = vec![self.kinds.get(*kind)?.kind.clone(), format!("{} objects", counts.get(*kind)?)];
            Some(Shape { lines, look: BoxStyle::Plain })
        });
        let graph = Graph { boxes: shapes.collect(), arrows: self.kind_arrows(&drawn) };
        let (arrows, layout) = graph.arranged();
        let place = |(kind, place): (usize, Rect)| Place {
            kind,
            x: place.x,
            y: place.y,
            width: place.width,
            height: place.height,
        };
        let routes = arrows.into_iter().zip(layout.arrows).map(|(arrow, route)| DrawnArrow {
            path: route.path,
            x: route.label.0,
            y: route.label.1,
            lines: arrow.lines,
            dashed: arrow.dashed,
        });
        self.drawing = Drawing {
            width: layout.width,
            height: layout.height,
            left_out: self.kinds.len().saturating_sub(drawn.len()),
            arrows: routes.collect(),
            boxes: drawn.into_iter().zip(layout.boxes).map(place).collect(),
        };
    }

    /// Returns one arrow for all edges between two kinds, with the field, or with the number of fields.
    fn kind_arrows(&self, drawn: &BTreeSet<usize>) -> Vec<Arrow> {
        let boxes: BTreeMap<_, _> = drawn.iter().enumerate().map(|(at, kind)| (*kind, at)).collect();
        let mut fields: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for edge in &self.edges {
            if let (Some(from), Some(to)) = (boxes.get(&edge.from), boxes.get(&edge.to)) {
                fields.entry((*from, *to, edge.on_delete != OnDelete::Deny)).or_default().insert(&edge.field);
            }
        }
        let arrow = |((from, to, dashed), fields): (_, BTreeSet<&str>)| {
            let only = fields.first().filter(|_| fields.len() == 1);
            let label = only.map_or_else(|| format!("{} fields", fields.len()), |only| (*only).to_owned());
            Arrow { from, to, lines: vec![label], dashed }
        };
        fields.into_iter().map(arrow).collect()
    }
}

/// Returns the kinds to draw, given the number of objects of each: all of few, and else those with objects.
fn drawn_kinds(counts: &[usize]) -> BTreeSet<usize> {
    let mut kinds: Vec<_> = (0..counts.len()).collect();
    if kinds.len() > MAX_EMPTY_KINDS {
        kinds.retain(|kind| counts.get(*kind).is_some_and(|count| *count > 0));
    }
    kinds.sort_by_key(|kind| Reverse(counts.get(*kind).copied()));
    kinds.into_iter().take(MAX_DRAWN_KINDS).collect()
}

/// Indexes of the kinds and namespaces that are listed already.
#[derive(Debug, Default)]
struct Kinds {
    kinds: BTreeMap<GroupResource, usize>,
    namespaces: BTreeMap<String, i64>,
}

impl Kinds {
    fn index(&mut self, kind: &GroupResource, scan: &Scan, kinds: &mut Vec<Kind>) -> usize {
        *self.kinds.entry(kind.clone()).or_insert_with(|| {
            // Rules may leave out the kind of a target; an object tells it.
            let named =
                scan.kind(kind).map(|known| known.kind.clone()).filter(|known| *known != kind.resource.as_str());
            let named = named.or_else(|| {
                let same = |object: &&ScannedObject| object.kind.gvr.group_resource() == *kind;
                scan.objects.iter().find(same).map(|object| object.kind.kind.clone())
            });
            kinds.push(Kind { kind: named.unwrap_or_else(|| kind.resource.to_string()), resource: kind.to_string() });
            kinds.len().saturating_sub(1)
        })
    }

    fn namespace(&mut self, namespace: Option<&str>, namespaces: &mut Vec<String>) -> i64 {
        let Some(namespace) = namespace else { return -1 };
        *self.namespaces.entry(namespace.to_owned()).or_insert_with(|| {
            namespaces.push(namespace.to_owned());
            i64::try_from(namespaces.len().saturating_sub(1)).unwrap_or(-1)
        })
    }
}

/// Quotes a word for a shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@=,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_kinds_those_with_the_most_objects_are_drawn() {
        assert_eq!(drawn_kinds(&[0, 3, 0]).len(), 3, "all of few");
        let mut counts = vec![0; 100];
        (counts[7], counts[9]) = (1, 2);
        assert_eq!(drawn_kinds(&counts), BTreeSet::from([7, 9]));
        let counts: Vec<_> = (0..100).collect();
        assert_eq!(drawn_kinds(&counts), (60..100).collect());
    }

    #[test]
    fn a_word_is_quoted_if_a_shell_would_read_more_in_it() {
        assert_eq!(quoted("a/b-c.yaml"), "a/b-c.yaml");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(quoted(""), "''");
    }
}
