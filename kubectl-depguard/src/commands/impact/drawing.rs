//! Drawing of the dependents of objects.

use std::collections::{BTreeMap, HashSet};

use depguard_core::api::OnDelete;

use super::{RuleField, Tree, by};
use crate::engine::reference_scan::Scan;
use crate::io::graph_formats::{Arrow, BoxStyle, Graph, Shape};

/// Draws the objects in question and all their dependents, each once. The objects that block a deletion are marked.
pub(super) fn draw(scan: &Scan, trees: &[Tree<'_>]) -> Graph {
    let (mut drawing, mut boxes) = (Graph::default(), BTreeMap::new());
    for tree in trees {
        place(scan, tree.root, BoxStyle::Focus, &mut boxes, &mut drawing);
    }
    let mut drawn = HashSet::new();
    for Tree { root, report } in trees {
        let is_going = scan.objects.get(*root).is_some_and(|object| object.terminating);
        for line in &report.dependents.lines {
            let by = by(scan, line);
            let blocks = line.depth == 1 && !is_going && by.iter().any(|by| by.on_delete == OnDelete::Deny);
            let look = if blocks { BoxStyle::Blocker } else { BoxStyle::Plain };
            let from = place(scan, line.object, look, &mut boxes, &mut drawing);
            let to = place(scan, line.parent, BoxStyle::Plain, &mut boxes, &mut drawing);
            let dashed = by.iter().all(|by| by.on_delete != OnDelete::Deny);
            let lines = by.iter().map(label).collect();
            // Trees that meet have arrows in common.
            if drawn.insert((from, to)) {
                drawing.arrows.push(Arrow { from, to, lines, dashed });
            }
        }
    }
    drawing
}

/// Returns the box of an object, and makes it if there is none yet.
fn place(scan: &Scan, object: usize, look: BoxStyle, boxes: &mut BTreeMap<usize, usize>, drawing: &mut Graph) -> usize {
    let at = *boxes.entry(object).or_insert_with(|| {
        let name = scan.objects.get(object).map(ToString::to_string).unwrap_or_default();
        drawing.boxes.push(Shape { lines: vec![name], look: BoxStyle::Plain });
        drawing.boxes.len().saturating_sub(1)
    });
    if let Some(shape) = drawing.boxes.get_mut(at).filter(|shape| shape.look == BoxStyle::Plain) {
        shape.look = look;
    }
    at
}

fn label(by: &RuleField) -> String {
    let weaker = if by.on_delete == OnDelete::Deny { String::new() } else { format!(" ({:?})", by.on_delete) };
    format!("{}: {}{weaker}", by.rule, by.field)
}
