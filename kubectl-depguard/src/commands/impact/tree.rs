//! Tree of dependents, line by line.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::kinds::KindInfo;
use crate::cluster::resource_path::text;
use crate::engine::members::Members;
use crate::engine::reference_scan::{Object, Scan};
pub(super) use crate::io::tree::{Branches, Line, Repetition};

/// Returns the members of `root` to which objects refer that stay: indexes in the scan's objects.
pub(super) fn needed(scan: &Scan, held_by: &[Vec<usize>], root: usize, members: &Members) -> Vec<usize> {
    let members: BTreeSet<_> = members.known().filter_map(|member| find(scan, member)).collect();
    // Whatever is in a namespace goes with it, also what no rule protects.
    let namespace = scan.objects.get(root).filter(|root| root.kind.gvr.resource.as_str() == "namespaces");
    let stays = |index: usize| {
        let own = scan.objects.get(index).and_then(Object::namespace);
        !members.contains(&index) && namespace.is_none_or(|namespace| own != Some(namespace.name()))
    };
    let is_needed = |member: &&usize| {
        let references = held_by.get(**member).into_iter().flatten();
        references.filter_map(|index| scan.references.get(*index)).any(|reference| stays(reference.from))
    };
    members.iter().filter(is_needed).copied().collect()
}

/// Marks the objects that the user named, those that go with them, and their dependents.
pub(super) fn marked(scan: &Scan, known: &[(&KindInfo, &Value)], dependents: impl Iterator<Item = usize>) -> Vec<bool> {
    let known: BTreeSet<_> = known.iter().filter_map(|known| find(scan, *known)).chain(dependents).collect();
    (0..scan.objects.len()).map(|index| known.contains(&index)).collect()
}

fn find(scan: &Scan, (kind, object): (&KindInfo, &Value)) -> Option<usize> {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    scan.find(&kind.gvr.group_resource(), namespace, text(object, "/metadata/name"))
}

/// Lists all dependents of `root`, direct and indirect, with the references of each to its parent; `held_by`: the
/// references that hold each object of the scan. The `members` of the root come first, which have no reference to it.
pub(super) fn lines(scan: &Scan, held_by: &[Vec<usize>], root: usize, members: &[usize]) -> Vec<Line> {
    crate::io::tree::lines(root, |object| {
        let references = held_by.get(object).into_iter().flatten();
        let mut references: Vec<_> = references
            .filter_map(|index| {
                let from = scan.references.get(*index)?.from;
                Some((from, scan.objects.get(from)?, *index))
            })
            .collect();
        references.sort_by_key(|(from, named, index)| {
            let order = (named.kind.kind.as_str(), named.namespace(), named.name(), *from);
            (std::cmp::Reverse(order), *index)
        });
        let dependents = references.chunk_by(|(one, ..), (other, ..)| one == other).filter_map(|of_one| {
            let (from, ..) = of_one.first()?;
            Some((*from, of_one.iter().map(|(_, _, index)| *index).collect()))
        });
        // The last ones come first on the tree.
        let members = members.iter().rev().filter(|_| object == root).map(|member| (*member, Vec::new()));
        dependents.chain(members).collect()
    })
}

/// Keeps the lines of selected objects, and the lines above them.
pub(super) fn selected(scan: &Scan, lines: Vec<Line>) -> Vec<Line> {
    let mut kept = Vec::new();
    // Depth of the line above which every line is kept, and for each depth whether a later sibling is kept.
    let (mut needed, mut has_later) = (0, Vec::new());
    for mut line in lines.into_iter().rev() {
        let is_above = line.depth < needed;
        if is_above {
            needed = line.depth;
        }
        if !is_above && !scan.objects.get(line.object).is_some_and(|object| object.selected) {
            continue;
        }
        needed = needed.max(line.depth);
        has_later.resize(line.depth.saturating_add(1), false);
        if let Some(later) = has_later.get_mut(line.depth) {
            line.is_last = !std::mem::replace(later, true);
        }
        kept.push(line);
    }
    kept.reverse();
    kept
}

/// Returns true if a line counts as an object that depends on the root: the object is selected, and not listed before.
pub(super) fn is_counted(scan: &Scan, line: &Line) -> bool {
    line.again.is_none() && scan.objects.get(line.object).is_some_and(|object| object.selected)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use depguard_core::model::Namespace;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::documents::{Document, Origin};
    use crate::cluster::manifests::Manifests;
    use crate::cluster::source::Source;
    use crate::engine::reference_scan::{Follow, Scope};
    use crate::io::terminal::Terminal;

    /// Builds a scan of nodes; each node refers to the nodes of the given numbers.
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
        let documents: Vec<_> = [rule].into_iter().chain(nodes).map(document).collect();
        let source = Source::Manifests(Box::new(Manifests::new(&documents, &namespace).unwrap()));
        let scope = Scope::all(Follow::Dependents, "");
        let (terminal, _) = Terminal::captured("");
        Scan::read(&source, &source.rules().await.unwrap(), scope, &[], &terminal).await.unwrap()
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
            let lines = lines(&scan, &scan.held_by(), root, &[]);

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
            // Each reference between them has one line.
            let pairs: Vec<_> = lines.iter().map(|line| (name(&scan, line.object), name(&scan, line.parent))).collect();
            let unique: BTreeSet<_> = pairs.iter().copied().collect();
            prop_assert_eq!(pairs.len(), unique.len());
            let listed = |node: &usize| *node == 0 || reached.contains(node);
            let expected: BTreeSet<_> = (0..nodes.len())
                .flat_map(|from| (0..nodes.len()).map(move |to| (from, to)))
                .filter(|(from, to)| refers(*from, *to) && listed(to))
                .collect();
            prop_assert_eq!(unique, expected);
            // A line that says "cycle" is in one: the object is on a line above it.
            let mut above = vec![root];
            for line in &lines {
                above.truncate(line.depth);
                prop_assert_eq!(above.last(), Some(&line.parent));
                prop_assert_eq!(line.again == Some(Repetition::Cycle), above.contains(&line.object));
                above.push(line.object);
            }
        }
    }
}
