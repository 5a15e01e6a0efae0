//! Graph of objects, and the references between them.

use std::collections::BTreeMap;

use depguard_core::model::Namespace;

use super::arrow;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{
    Coverage, DRAW_ONE_NAMESPACE, Follow, Object, READ_ONE_NAMESPACE, Reference, Scan, Scope,
};
use crate::io::exit::Failure;
use crate::io::graph_formats::{BoxStyle, Graph, Shape};
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Draws the objects of one namespace or of all, and every object that they refer to.
pub(super) async fn draw(
    source: &Source,
    namespace: Option<&Namespace>,
    selection: &Selection,
    terminal: &mut Terminal,
) -> Result<(Graph, Coverage), Failure> {
    let (fallback, selection) = (namespace, Some(selection));
    let scope = Scope { namespace, fallback, selection, ..Scope::all(Follow::Targets, READ_ONE_NAMESPACE) };
    let scan = read(source, scope, terminal).await?;
    let (mut drawing, mut boxes) = (Graph::default(), Boxes::default());
    for (index, object) in scan.objects.iter().enumerate().filter(|(_, object)| object.is_asked_for()) {
        boxes.of(index, object, &mut drawing);
    }
    draw_references(&scan, &mut boxes, &mut drawing);
    Ok((drawing, scan.coverage))
}

/// Draws one object and its surroundings.
pub(super) async fn draw_focus(
    source: &Source,
    global: &Global,
    focus: &str,
    depth: usize,
    terminal: &mut Terminal,
) -> Result<(Graph, Coverage), Failure> {
    let (named, name) =
        focus.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()).ok_or_else(|| {
            Failure::new(format!("`{focus}` names no object")).hint("write KIND/NAME, as in --focus vpc/a")
        })?;
    let kind = source.kind(named).await?;
    let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
    let fallback = namespace.as_ref();
    let scope = Scope { fallback, ..Scope::all(Follow::Dependents, DRAW_ONE_NAMESPACE) };
    let scan = read(source, scope, terminal).await?;
    let own = namespace.as_ref().map(Namespace::as_str);
    let group_resource = kind.gvr.group_resource();
    let found = scan.find(&group_resource, own, name).or_else(|| scan.find(&group_resource, None, name));
    let Some((index, object)) = found.and_then(|index| Some((index, scan.objects.get(index)?))) else {
        let within = own.map(|own| format!(" in namespace {own}")).unwrap_or_default();
        return Err(Failure::new(format!("found no {} {name}{within} among the objects of rules", kind.kind))
            .hint("name its namespace with --namespace; only kinds that rules name are drawn"));
    };
    let (mut drawing, mut boxes) = (Graph::default(), Boxes::default());
    let at = boxes.of(index, object, &mut drawing);
    draw_references(&scan, &mut boxes, &mut drawing);
    mark(&scan, index, &boxes, &mut drawing);
    let (drawing, left_out) = drawing.neighbourhood(at, depth);
    if left_out > 0 {
        terminal
            .note(&format!("left out {left_out} objects that are no nearer than the others; see a smaller --depth"))?;
    }
    Ok((drawing, scan.coverage))
}

async fn read(source: &Source, scope: Scope<'_>, terminal: &mut Terminal) -> Result<Scan, Failure> {
    let rules = source.rules().await?;
    let scan = Scan::read(source, &rules, scope, &[], terminal).await?;
    scan.print_unread(terminal)?;
    match scan.coverage.nothing() {
        Some(nothing) => Err(nothing),
        None => Ok(scan),
    }
}

/// Draws all references, and each object at their ends that is not drawn yet.
fn draw_references(scan: &Scan, boxes: &mut Boxes, drawing: &mut Graph) {
    for reference in &scan.references {
        let (Some(holder), Some(applied)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
            continue;
        };
        let rule = &applied.rule().name;
        for &target in &reference.holds {
            let Some(object) = scan.objects.get(target).filter(|object| holder.selected || object.selected) else {
                continue;
            };
            let (from, to) = (boxes.of(reference.from, holder, drawing), boxes.of(target, object, drawing));
            drawing.arrows.push(arrow(from, to, rule, &applied.edge));
        }
        if let Some(name) = missing(scan, reference).filter(|_| holder.selected) {
            let from = boxes.of(reference.from, holder, drawing);
            let to = boxes.of_missing(name, drawing);
            drawing.arrows.push(arrow(from, to, rule, &applied.edge));
        }
    }
}

/// Marks the object in question, and the objects that block its deletion.
fn mark(scan: &Scan, focus: usize, boxes: &Boxes, drawing: &mut Graph) {
    let mut look = |object: usize, look: BoxStyle| {
        if let Some(shape) = boxes.objects.get(&object).and_then(|at| drawing.boxes.get_mut(*at)) {
            shape.look = look;
        }
    };
    for (from, _, _) in scan.blocking().filter(|(_, to, _)| *to == focus) {
        look(from, BoxStyle::Blocker);
    }
    look(focus, BoxStyle::Focus);
}

/// Returns the name of a target that doesn't exist, if the reference is by name.
fn missing(scan: &Scan, reference: &Reference) -> Option<String> {
    let (target, namespace, name) = scan.missing_target(reference)?;
    let kind = scan.kind(&target).map_or(target.resource.as_str(), |kind| kind.kind.as_str());
    let within = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Some(format!("{kind}/{within}{name}"))
}

/// Boxes that are drawn already.
#[derive(Default)]
struct Boxes {
    objects: BTreeMap<usize, usize>,
    missing: BTreeMap<String, usize>,
}

impl Boxes {
    fn of(&mut self, index: usize, object: &Object, drawing: &mut Graph) -> usize {
        *self.objects.entry(index).or_insert_with(|| {
            let mut lines = vec![object.to_string()];
            if object.terminating {
                lines.push("being deleted".to_owned());
            }
            push(lines, BoxStyle::Plain, drawing)
        })
    }

    fn of_missing(&mut self, name: String, drawing: &mut Graph) -> usize {
        *self.missing.entry(name).or_insert_with_key(|name| push(vec![name.clone()], BoxStyle::Missing, drawing))
    }
}

fn push(lines: Vec<String>, look: BoxStyle, drawing: &mut Graph) -> usize {
    drawing.boxes.push(Shape { lines, look });
    drawing.boxes.len().saturating_sub(1)
}
