//! Strongly connected components: nodes of a graph that lie on cycles together.

/// Returns the strongly connected component of each node: two nodes share a component if each leads to the other.
///
/// Nodes are numbered from 0. `leaving` lists for each node the nodes to which it leads; a number that is no node is
/// ignored. Components are numbered so that a component leads only to components with a lower number. The function is
/// Tarjan's algorithm with an explicit stack, because chains may be of any length.
#[expect(clippy::indexing_slicing, reason = "nodes are numbered from 0, and every list has one entry a node")]
pub fn strongly_connected_components(leaving: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut order = vec![NONE; leaving.len()];
    let mut low = vec![NONE; leaving.len()];
    let mut component = vec![NONE; leaving.len()];
    let (mut visited, mut found) = (0, 0);
    let mut open = Vec::new();
    let mut path = Vec::new();
    for root in 0..leaving.len() {
        if order[root] == NONE {
            path.push((root, 0));
        }
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if order[node] == NONE {
                (order[node], low[node]) = (visited, visited);
                visited += 1;
                open.push(node);
            }
            if let Some(&next) = leaving[node].get(*edge) {
                *edge += 1;
                if next >= leaving.len() {
                    continue;
                }
                if order[next] == NONE {
                    path.push((next, 0));
                } else if component[next] == NONE {
                    low[node] = low[node].min(order[next]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == order[node] {
                while let Some(member) = open.pop() {
                    component[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reaches(leaving: &[Vec<usize>], from: usize, to: usize) -> bool {
        let mut seen = vec![false; leaving.len()];
        let mut ahead = vec![from];
        while let Some(node) = ahead.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                ahead.extend(&leaving[node]);
            }
        }
        seen[to]
    }

    proptest! {
        #[test]
        fn two_nodes_share_a_component_where_each_reaches_the_other(
            edges in prop::collection::vec((0..8usize, 0..8usize), 0..20),
        ) {
            let mut leaving = vec![Vec::new(); 8];
            for (from, to) in edges {
                leaving[from].push(to);
            }
            let components = strongly_connected_components(&leaving);
            for (from, to) in leaving.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to))) {
                prop_assert!(components[from] >= components[to], "{} {} {:?}", from, to, &leaving);
            }
            for a in 0..8 {
                for b in 0..8 {
                    let both = reaches(&leaving, a, b) && reaches(&leaving, b, a);
                    prop_assert_eq!(components[a] == components[b], both, "{} {} {:?}", a, b, &leaving);
                }
            }
        }
    }

    #[test]
    fn a_cycle_of_any_length_is_found_without_recursion() {
        let length = 200_000;
        let leaving: Vec<_> = (0..length).map(|node| vec![(node + 1) % length]).collect();
        assert!(strongly_connected_components(&leaving).iter().all(|component| *component == 0));
    }

    #[test]
    fn what_is_no_node_leads_nowhere() {
        assert_eq!(strongly_connected_components(&[vec![7, 1], vec![usize::MAX]]), [1, 0]);
    }
}
