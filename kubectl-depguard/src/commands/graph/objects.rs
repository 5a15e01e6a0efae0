//! Objects, and what they refer to.

use std::collections::BTreeMap;

use depguard_core::api::OnDelete;
use depguard_core::{Means, Namespace};

use super::arrow;
use crate::drawing::{Drawing, Look, Shape};
use crate::outcome::Failure;
use crate::scan::{Follow, Object, Reference, Scan, Scope};
use crate::source::Source;
use crate::terminal::Terminal;

/// The objects of a namespace, or of all, and whatever they refer to.
pub(super) async fn draw(
    source: &Source,
    namespace: Option<&Namespace>,
    terminal: &mut Terminal,
) -> Result<Drawing, Failure> {
    let rules = source.rules().await?;
    let scope = Scope { namespace, follow: Follow::Targets, labels: false, fallback: namespace };
    let scan = Scan::read(source, &rules, scope, None, terminal).await?;
    scan.tell_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing() {
        return Err(nothing);
    }
    let mut drawing = Drawing::default();
    let mut boxes = Boxes::default();
    for (index, object) in scan.objects.iter().enumerate().filter(|(_, object)| object.inside) {
        boxes.of(index, object, &mut drawing);
    }
    for reference in &scan.references {
        let (Some(holder), Some(bearing)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
            continue;
        };
        let rule = &bearing.rule().name;
        for &target in &reference.holds {
            let Some(object) = scan.objects.get(target) else { continue };
            let (from, to) = (boxes.of(reference.from, holder, &mut drawing), boxes.of(target, object, &mut drawing));
            drawing.arrows.push(arrow(from, to, rule, &bearing.edge));
            let blocks = bearing.edge.on_delete == OnDelete::Deny && !object.terminating;
            if let Some(shape) = drawing.boxes.get_mut(from).filter(|_| blocks) {
                shape.look = Look::Blocker;
            }
        }
        if let Some(name) = missing(&scan, reference) {
            let from = boxes.of(reference.from, holder, &mut drawing);
            let to = boxes.of_missing(name, &mut drawing);
            drawing.arrows.push(arrow(from, to, rule, &bearing.edge));
        }
    }
    Ok(drawing)
}

/// What is referred to by name, and isn't there.
fn missing(scan: &Scan, reference: &Reference) -> Option<String> {
    let Means::Named { name, namespace, .. } = &reference.means else { return None };
    if reference.exists || !reference.looked_at {
        return None;
    }
    let target = scan.edges.get(reference.edge)?.target();
    let kind = scan.kind(&target).map_or(target.resource.as_str(), |kind| kind.kind.as_str());
    let within = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Some(format!("{kind}/{within}{name}"))
}

/// The boxes that are drawn already.
#[derive(Default)]
struct Boxes {
    objects: BTreeMap<usize, usize>,
    missing: BTreeMap<String, usize>,
}

impl Boxes {
    fn of(&mut self, index: usize, object: &Object, drawing: &mut Drawing) -> usize {
        *self.objects.entry(index).or_insert_with(|| {
            let mut lines = vec![object.to_string()];
            if object.terminating {
                lines.push("being deleted".to_owned());
            }
            push(lines, Look::Plain, drawing)
        })
    }

    fn of_missing(&mut self, name: String, drawing: &mut Drawing) -> usize {
        *self.missing.entry(name).or_insert_with_key(|name| push(vec![name.clone()], Look::Missing, drawing))
    }
}

fn push(lines: Vec<String>, look: Look, drawing: &mut Drawing) -> usize {
    drawing.boxes.push(Shape { lines, look });
    drawing.boxes.len().saturating_sub(1)
}
