//! Tree of objects, line by line, for a graph that may have cycles.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::io::terminal::{Terminal, Tone};

/// Line of the tree: one object below its parent, in the order of printing.
#[derive(Debug)]
pub(crate) struct Line {
    /// Object: an index.
    pub(crate) object: usize,
    /// Object above: an index.
    pub(crate) parent: usize,
    /// References between the two: indexes.
    pub(crate) references: Vec<usize>,
    /// Depth, from 1.
    pub(crate) depth: usize,
    /// True for the last object below its parent.
    pub(crate) is_last: bool,
    pub(crate) again: Option<Repetition>,
}

/// Reason why the objects below a line's object are not listed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum Repetition {
    /// The object leads to itself, through the lines above.
    Cycle,
    /// They are listed below an earlier line.
    Above,
}

/// Branches of the tree, drawn before the lines.
#[derive(Debug, Default)]
pub(crate) struct Branches(Vec<bool>);

/// Limit on the indentation of lines.
const MAX_INDENTED: usize = 40;

/// Lists all objects below `root`. `below` returns the objects directly below one, the last first, each with the
/// references between the two. The objects below an object are listed once, so that there are never more lines than
/// references.
pub(crate) fn lines(root: usize, below: impl Fn(usize) -> Vec<(usize, Vec<usize>)>) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut listed, mut above) = (HashSet::from([root]), HashSet::from([root]));
    // Each object on the path to the current line, with the objects below it that are still to be listed.
    let mut path = vec![(root, below(root))];
    while let Some((parent, siblings)) = path.last_mut() {
        let parent = *parent;
        let Some((object, references)) = siblings.pop() else {
            path.pop();
            above.remove(&parent);
            continue;
        };
        let is_last = siblings.is_empty();
        let again = match (listed.insert(object), above.contains(&object)) {
            (true, _) => None,
            (false, true) => Some(Repetition::Cycle),
            (false, false) => Some(Repetition::Above),
        };
        lines.push(Line { object, parent, references, depth: path.len(), is_last, again });
        if again.is_none() {
            path.push((object, below(object)));
            above.insert(object);
        }
    }
    lines
}

impl Repetition {
    /// Returns the remark at the end of the line.
    pub(crate) fn painted(self, terminal: &Terminal) -> String {
        match self {
            Self::Cycle => terminal.paint(Tone::Warning, " … a cycle"),
            Self::Above => terminal.paint(Tone::Faint, " … as above"),
        }
    }
}

impl Branches {
    /// Returns the branches before the next line.
    pub(crate) fn next(&mut self, line: &Line) -> String {
        let level = line.depth.min(MAX_INDENTED);
        self.0.truncate(level.saturating_sub(1));
        let above: String = self.0.iter().map(|ended| if *ended { "    " } else { "│   " }).collect();
        self.0.push(line.is_last);
        let own = if line.is_last { "└── " } else { "├── " };
        match line.depth > MAX_INDENTED {
            true => format!("{above}{own}({} deep) ", line.depth),
            false => format!("{above}{own}"),
        }
    }
}
