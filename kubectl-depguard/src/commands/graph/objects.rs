//! Graph of objects, and the references between them.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::lookup::ReferenceTarget;
use depguard_core::model::Namespace;

use super::arrow;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{Coverage, Follow, Object, Reference, Scan, Scope};
use crate::io::exit::Failure;
use crate::io::graph_formats::{BoxStyle, Graph, Shape};
use crate::io::terminal::Terminal;

/// Draws the objects of one namespace or of all, and every object that they refer to.
pub(super) async fn draw(
    source: &Source,
    namespace: Option<&Namespace>,
    terminal: &mut Terminal,
) -> Result<(Graph, Coverage), Failure> {
    let rules = source.rules().await?;
    let scope = Scope { namespace, follow: Follow::Targets, labels: false, fallback: namespace };
    let scan = Scan::read(source, &rules, scope, None, terminal).await?;
    scan.print_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing() {
        return Err(nothing);
    }
    let mut drawing = Graph::default();
    let mut boxes = Boxes::default();
    for (index, object) in scan.objects.iter().enumerate().filter(|(_, object)| object.inside) {
        boxes.of(index, object, &mut drawing);
    }
    for reference in &scan.references {
        let (Some(holder), Some(applied)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
            continue;
        };
        let rule = &applied.rule().name;
        for &target in &reference.holds {
            let Some(object) = scan.objects.get(target) else { continue };
            let (from, to) = (boxes.of(reference.from, holder, &mut drawing), boxes.of(target, object, &mut drawing));
            drawing.arrows.push(arrow(from, to, rule, &applied.edge));
            let blocks = applied.edge.on_delete == OnDelete::Deny && !object.terminating;
            if let Some(shape) = drawing.boxes.get_mut(from).filter(|_| blocks) {
                shape.look = BoxStyle::Blocker;
            }
        }
        if let Some(name) = missing(&scan, reference) {
            let from = boxes.of(reference.from, holder, &mut drawing);
            let to = boxes.of_missing(name, &mut drawing);
            drawing.arrows.push(arrow(from, to, rule, &applied.edge));
        }
    }
    Ok((drawing, scan.coverage))
}

/// Returns the name of a target that doesn't exist, if the reference is by name.
fn missing(scan: &Scan, reference: &Reference) -> Option<String> {
    let ReferenceTarget::Named { name, namespace, .. } = &reference.means else { return None };
    if reference.exists || !reference.looked_at {
        return None;
    }
    let target = scan.edges.get(reference.edge)?.target();
    let kind = scan.kind(&target).map_or(target.resource.as_str(), |kind| kind.kind.as_str());
    let within = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
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
