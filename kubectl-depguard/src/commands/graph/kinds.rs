//! Graph of kinds, and the rules between them.

use std::collections::BTreeMap;

use depguard_core::model::GroupResource;

use super::arrow;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{Coverage, print_unread};
use crate::io::exit::Failure;
use crate::io::graph_formats::{BoxStyle, Graph, Shape};
use crate::io::terminal::Terminal;

/// Draws the rules that apply as arrows between kinds.
pub(super) async fn draw(source: &Source, terminal: &mut Terminal) -> Result<(Graph, Coverage), Failure> {
    let rules = source.rules().await?;
    let checked = rules.check();
    let coverage = Coverage::of_rules(&rules, &checked, source);
    if let Some(nothing) = coverage.nothing() {
        return Err(nothing);
    }
    let (mut drawing, mut boxes) = (Graph::default(), BTreeMap::new());
    for (_, rule) in &checked.usable {
        for edge in rule.edges().iter().filter(|edge| rules.applies(rule, edge)) {
            let dependent = (rule.dependent().gvr.group_resource(), Some(rule.dependent().kind.to_string()));
            let target = (edge.target.gvr.group_resource(), edge.target.kind.as_ref().map(ToString::to_string));
            let mut ends = [0, 0];
            for (end, (kind, name)) in ends.iter_mut().zip([dependent, target]) {
                *end = place(&mut drawing, &mut boxes, &kind);
                if let (Some(name), Some(shape)) = (name, drawing.boxes.get_mut(*end)) {
                    shape.lines = vec![name, kind.to_string()];
                }
            }
            let [from, to] = ends;
            drawing.arrows.push(arrow(from, to, &rule.key().name, edge));
        }
    }
    // A rule may leave out its target's kind; the API server or a definition names it.
    let unnamed: Vec<_> = boxes.into_iter().filter(|(_, at)| drawing.boxes.get(*at).is_some_and(is_unnamed)).collect();
    for (kind, at) in unnamed {
        if let (Ok(Some(known)), Some(shape)) = (source.kind_of(&kind).await, drawing.boxes.get_mut(at)) {
            shape.lines = vec![known.kind, kind.to_string()];
        }
    }
    print_unread(&checked.unread, terminal)?;
    Ok((drawing, coverage))
}

/// Returns the box of a kind, and makes it if there is none yet.
fn place(drawing: &mut Graph, boxes: &mut BTreeMap<GroupResource, usize>, kind: &GroupResource) -> usize {
    *boxes.entry(kind.clone()).or_insert_with(|| {
        drawing.boxes.push(Shape { lines: vec![kind.to_string()], look: BoxStyle::Plain });
        drawing.boxes.len().saturating_sub(1)
    })
}

fn is_unnamed(shape: &Shape) -> bool {
    shape.lines.len() == 1
}
