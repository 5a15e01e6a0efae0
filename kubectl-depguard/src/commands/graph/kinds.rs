//! Kinds, and the rules between them.

use std::collections::BTreeMap;

use depguard_core::{GroupResource, Rule};

use super::arrow;
use crate::drawing::{Drawing, Look, Shape};
use crate::outcome::Failure;
use crate::scan::Coverage;
use crate::source::Source;
use crate::terminal::Terminal;

/// The rules that bear, as arrows between kinds.
pub(super) async fn draw(source: &Source, terminal: &mut Terminal) -> Result<Drawing, Failure> {
    let rules = source.rules().await?;
    if let Some(nothing) = Coverage::of_rules(&rules, source).nothing() {
        return Err(nothing);
    }
    let (mut drawing, mut boxes) = (Drawing::default(), BTreeMap::new());
    for rule in rules.parsed() {
        let rule: Rule = match rule {
            Ok(rule) => rule,
            Err(why) => {
                terminal.note(&format!("a rule that can't be used is not drawn: {why}"))?;
                continue;
            }
        };
        for edge in rule.edges().iter().filter(|edge| rules.bears(&rule, edge)) {
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
    // A rule need not say its target's kind; whoever serves or defines it does.
    let unnamed: Vec<_> = boxes.into_iter().filter(|(_, at)| drawing.boxes.get(*at).is_some_and(is_unnamed)).collect();
    for (kind, at) in unnamed {
        if let (Ok(Some(known)), Some(shape)) = (source.kind_of(&kind).await, drawing.boxes.get_mut(at)) {
            shape.lines = vec![known.kind, kind.to_string()];
        }
    }
    for unread in rules.unread {
        terminal.note(&format!("could not look at {unread}"))?;
    }
    Ok(drawing)
}

/// The box of a kind, made where there is none yet.
fn place(drawing: &mut Drawing, boxes: &mut BTreeMap<GroupResource, usize>, kind: &GroupResource) -> usize {
    *boxes.entry(kind.clone()).or_insert_with(|| {
        drawing.boxes.push(Shape { lines: vec![kind.to_string()], look: Look::Plain });
        drawing.boxes.len().saturating_sub(1)
    })
}

fn is_unnamed(shape: &Shape) -> bool {
    shape.lines.len() == 1
}
