//! The tree of dependents, line by line.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::scan::Scan;

/// A dependent, in the order in which a tree is printed.
#[derive(Debug)]
pub(super) struct Line {
    /// An index in the scan's objects.
    pub(super) object: usize,
    /// What it depends on, likewise.
    pub(super) parent: usize,
    /// By which references: indexes in the scan's.
    pub(super) references: Vec<usize>,
    /// From 1.
    pub(super) depth: usize,
    /// Whether it is the last that depends on its parent.
    pub(super) is_last: bool,
    pub(super) again: Option<Again>,
}

/// Why a line's own dependents are not below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Again {
    /// It is among those that depend on itself.
    Cycle,
    /// They are below it elsewhere.
    Above,
}

/// Draws the branches before the lines.
#[derive(Debug, Default)]
pub(super) struct Branches(Vec<bool>);

/// Deeper than this, lines are indented no further.
const MOST_INDENTED: usize = 40;

/// Everyone who depends on `root`. Each object's dependents are listed once, so that there are no more lines than
/// references, however they are entangled.
pub(super) fn lines(scan: &Scan, root: usize) -> Vec<Line> {
    let held_by = scan.held_by();
    let dependents = |object: usize| {
        let mut dependents: BTreeMap<_, (usize, Vec<usize>)> = BTreeMap::new();
        for reference in held_by.get(object).into_iter().flatten() {
            if let Some(from) = scan.references.get(*reference).map(|reference| reference.from)
                && let Some(named) = scan.objects.get(from)
            {
                let order = (named.kind.kind.as_str(), named.namespace(), named.name(), from);
                dependents.entry(order).or_insert((from, Vec::new())).1.push(*reference);
            }
        }
        // The last is taken first.
        dependents.into_values().rev().collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    let (mut seen, mut above) = (HashSet::from([root]), HashSet::from([root]));
    // Each object of the path that leads here, with what is still to be listed below it.
    let mut path = vec![(root, dependents(root))];
    while let Some((parent, siblings)) = path.last_mut() {
        let parent = *parent;
        let Some((object, references)) = siblings.pop() else {
            path.pop();
            above.remove(&parent);
            continue;
        };
        let is_last = siblings.is_empty();
        let again = match (seen.insert(object), above.contains(&object)) {
            (true, _) => None,
            (false, true) => Some(Again::Cycle),
            (false, false) => Some(Again::Above),
        };
        lines.push(Line { object, parent, references, depth: path.len(), is_last, again });
        if again.is_none() {
            path.push((object, dependents(object)));
            above.insert(object);
        }
    }
    lines
}

impl Branches {
    /// What stands before the next line.
    pub(super) fn next(&mut self, line: &Line) -> String {
        let level = line.depth.min(MOST_INDENTED);
        self.0.truncate(level.saturating_sub(1));
        let above: String = self.0.iter().map(|ended| if *ended { "    " } else { "│   " }).collect();
        self.0.push(line.is_last);
        let own = if line.is_last { "└── " } else { "├── " };
        match line.depth > MOST_INDENTED {
            true => format!("{above}{own}({} deep) ", line.depth),
            false => format!("{above}{own}"),
        }
    }
}
