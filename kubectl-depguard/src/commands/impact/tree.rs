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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use depguard_core::Namespace;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::disk::Disk;
    use crate::files::{Document, Origin};
    use crate::scan::{Follow, Scope};
    use crate::source::Source;
    use crate::terminal::Terminal;

    /// Nodes of which each refers to those of the numbers that it is given.
    async fn scan(nodes: &[Vec<usize>]) -> Scan {
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "r"},
            "spec": {
                "dependent": {"group": "a.example.com", "version": "v1", "kind": "Node", "resource": "nodes"},
                "dependencies": [
                    {"group": "a.example.com", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.next"}},
                ],
            },
        });
        let nodes = nodes.iter().enumerate().map(|(name, next)| {
            let next: Vec<_> = next.iter().map(ToString::to_string).collect();
            json!({
                "apiVersion": "a.example.com/v1", "kind": "Node", "spec": {"next": next},
                "metadata": {"name": name.to_string(), "namespace": "ns", "uid": name.to_string()},
            })
        });
        let document = |value: Value| Document { value: Arc::new(value), origin: Origin { file: "f".into(), line: 1 } };
        let namespace = Namespace::parse("ns").unwrap();
        let source = Source::Disk(Disk::new([rule].into_iter().chain(nodes).map(document).collect(), &namespace));
        let scope = Scope { namespace: None, follow: Follow::Dependents, labels: false, fallback: None };
        let (terminal, _) = Terminal::captured("");
        Scan::read(&source, &source.rules().await.unwrap(), scope, None, &terminal).await.unwrap()
    }

    fn name(scan: &Scan, object: usize) -> usize {
        scan.objects[object].name().parse().unwrap()
    }

    proptest! {
        #[test]
        fn everyone_who_depends_on_it_is_listed_once_and_again_only_where_entangled(
            nodes in (1..7_usize).prop_flat_map(|count| vec(vec(0..count, 0..4), count)),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let scan = runtime.block_on(scan(&nodes));
            let root = (0..scan.objects.len()).find(|object| name(&scan, *object) == 0).unwrap();
            let lines = lines(&scan, root);

            let refers = |from: usize, to: usize| from != to && nodes[from].contains(&to);
            let mut reached = BTreeSet::from([0]);
            while let Some(more) = (0..nodes.len())
                .find(|from| !reached.contains(from) && reached.iter().any(|to| refers(*from, *to)))
            {
                reached.insert(more);
            }
            reached.remove(&0);
            let first: Vec<_> = lines.iter().filter(|line| line.again.is_none()).map(|line| name(&scan, line.object)).collect();
            prop_assert_eq!(first.len(), reached.len());
            prop_assert_eq!(first.into_iter().collect::<BTreeSet<_>>(), reached.clone());
            // Each reference among them stands in one line.
            let pairs: Vec<_> = lines.iter().map(|line| (name(&scan, line.object), name(&scan, line.parent))).collect();
            let unique: BTreeSet<_> = pairs.iter().copied().collect();
            prop_assert_eq!(pairs.len(), unique.len());
            let listed = |node: &usize| *node == 0 || reached.contains(node);
            let expected: BTreeSet<_> = (0..nodes.len())
                .flat_map(|from| (0..nodes.len()).map(move |to| (from, to)))
                .filter(|(from, to)| refers(*from, *to) && listed(to))
                .collect();
            prop_assert_eq!(unique, expected);
            // What is called a cycle is one: the object is among those above its line.
            let mut above = vec![root];
            for line in &lines {
                above.truncate(line.depth);
                prop_assert_eq!(above.last(), Some(&line.parent));
                prop_assert_eq!(line.again == Some(Again::Cycle), above.contains(&line.object));
                above.push(line.object);
            }
        }
    }
}
