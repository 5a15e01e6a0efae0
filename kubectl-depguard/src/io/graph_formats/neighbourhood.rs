//! Part of a graph around one box.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arrow, Graph};

/// Limit on the boxes around a focus. A person can't follow more, and the count on a box says what is left out.
const MAX_BOXES: usize = 150;

impl Graph {
    /// Returns the boxes that at most `depth` arrows separate from `focus`, whichever way these point, and the number
    /// of boxes that are near enough but too many. A box with neighbours outside says how many these are.
    pub(crate) fn neighbourhood(&self, focus: usize, depth: usize) -> (Self, usize) {
        let mut neighbours = vec![BTreeSet::new(); self.boxes.len()];
        for arrow in self.arrows.iter().filter(|arrow| arrow.from != arrow.to) {
            for (one, other) in [(arrow.from, arrow.to), (arrow.to, arrow.from)] {
                if let Some(neighbours) = neighbours.get_mut(one) {
                    neighbours.insert(other);
                }
            }
        }
        let of = |index: usize| neighbours.get(index).into_iter().flatten().copied();
        let (mut near, mut ring) = (BTreeSet::from([focus]), vec![focus]);
        for _ in 0..depth {
            let mut next = Vec::new();
            for other in ring.iter().flat_map(|index| of(*index)) {
                if near.insert(other) {
                    next.push(other);
                }
            }
            if next.is_empty() {
                break;
            }
            ring = next;
        }
        let (kept, left_out) = nearest(focus, &near, of);
        (self.part(&kept, of), left_out)
    }

    /// Returns the part with these boxes, in the order of the whole.
    fn part<N: Iterator<Item = usize>>(&self, kept: &BTreeSet<usize>, neighbours: impl Fn(usize) -> N) -> Self {
        let numbers: BTreeMap<_, _> = kept.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let boxes = kept.iter().filter_map(|index| {
            let mut shape = self.boxes.get(*index)?.clone();
            let outside = neighbours(*index).filter(|other| !kept.contains(other)).count();
            if outside > 0 {
                shape.lines.push(format!("+{outside} more"));
            }
            Some(shape)
        });
        let arrows = self.arrows.iter().filter_map(|arrow| {
            let (from, to) = (*numbers.get(&arrow.from)?, *numbers.get(&arrow.to)?);
            Some(Arrow { from, to, ..arrow.clone() })
        });
        Self { boxes: boxes.collect(), arrows: arrows.collect() }
    }
}

/// Keeps the nearest boxes up to the limit, and returns the number of the others.
fn nearest<N: Iterator<Item = usize>>(
    focus: usize,
    near: &BTreeSet<usize>,
    neighbours: impl Fn(usize) -> N,
) -> (BTreeSet<usize>, usize) {
    let (mut kept, mut queue) = (BTreeSet::from([focus]), std::collections::VecDeque::from([focus]));
    while let Some(index) = queue.pop_front() {
        for other in neighbours(index).filter(|other| near.contains(other)) {
            if kept.len() < MAX_BOXES && kept.insert(other) {
                queue.push_back(other);
            }
        }
    }
    let left_out = near.len().saturating_sub(kept.len());
    (kept, left_out)
}

#[cfg(test)]
mod tests {
    use super::super::{BoxStyle, Shape};
    use super::*;

    fn graph(count: usize, arrows: &[(usize, usize)]) -> Graph {
        let shape = |index: usize| Shape { lines: vec![format!("b{index}")], look: BoxStyle::Plain };
        let arrow = |&(from, to): &(usize, usize)| Arrow { from, to, lines: Vec::new(), dashed: false };
        Graph { boxes: (0..count).map(shape).collect(), arrows: arrows.iter().map(arrow).collect() }
    }

    #[test]
    fn a_focus_shows_its_neighbours_and_counts_the_others() {
        let whole = graph(6, &[(0, 1), (1, 2), (2, 3), (4, 2), (2, 2)]);
        let (part, left_out) = whole.neighbourhood(1, 1);
        let lines: Vec<_> = part.boxes.iter().map(|shape| shape.lines.join(" ")).collect();
        assert_eq!((lines, left_out), (vec!["b0".into(), "b1".into(), "b2 +2 more".into()], 0));
        assert_eq!(
            part.arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect::<Vec<_>>(),
            [(0, 1), (1, 2), (2, 2)]
        );
        assert_eq!(whole.neighbourhood(1, 2).0.boxes.len(), 5, "b5 has no arrow");
        assert_eq!(whole.neighbourhood(5, 9).0.boxes.len(), 1);
    }

    #[test]
    fn a_crowd_is_cut_and_counted() {
        let arrows: Vec<_> = (1..1000).map(|index| (index, 0)).collect();
        let (part, left_out) = graph(1000, &arrows).neighbourhood(0, 3);
        assert_eq!((part.boxes.len(), left_out), (MAX_BOXES, 1000 - MAX_BOXES));
        assert_eq!(part.boxes[0].lines, ["b0".to_owned(), format!("+{} more", 1000 - MAX_BOXES)]);
    }
}
