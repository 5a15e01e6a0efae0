//! Layered layout of a graph: boxes in columns, so that arrows point to the right wherever the graph has no cycle.

use std::collections::BTreeSet;

use depguard_core::graph::{DeletionOrder, feedback_edges};

/// Places of the boxes and arrows of a graph, in pixels. The same graph always has the same layout.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) boxes: Vec<Rect>,
    pub(crate) arrows: Vec<Route>,
}

/// Rectangle on the drawing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Route of an arrow, with the place of its label.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Route {
    /// Path in the language of SVG.
    pub(crate) path: String,
    /// Centre of the label.
    pub(crate) label: (f64, f64),
}

/// Size of a box or a label.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Arrow between two boxes, given by their indexes, with the size of its label.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: Size,
}

/// Box, label, or bend of a long arrow. Boxes are in even columns, labels and bends in any.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    size: Size,
    column: usize,
    /// Centre.
    x: f64,
    y: f64,
}

/// Margin of the drawing, and the smallest distances between columns and between the nodes of a column.
const MARGIN: f64 = 24.0;
const COLUMN_GAP: f64 = 26.0;
const ROW_GAP: f64 = 18.0;
/// Height of an arrow that leads from a box to itself, above the box.
const LOOP: f64 = 26.0;
/// Number of times that the order and the heights of the nodes are improved.
const SWEEPS: usize = 12;

/// Places boxes of these sizes.
pub(super) fn layout(boxes: &[Size], links: &[Link]) -> Layout {
    let mut drawing = Drawing::new(boxes, links);
    drawing.sort_columns();
    drawing.place();
    drawing.finish(boxes, links)
}

/// Layout under way.
struct Drawing {
    nodes: Vec<Node>,
    /// Nodes of each column, from top to bottom.
    columns: Vec<Vec<usize>>,
    /// Left and right end of each column.
    spans: Vec<(f64, f64)>,
    /// Neighbours of each node in the column before it, and in the column after it.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// Nodes through which each arrow goes, from left to right; empty for an arrow from a box to itself.
    chains: Vec<Vec<usize>>,
    /// True for arrows that point to the left.
    backwards: Vec<bool>,
    /// Boxes without arrows, which a grid below the drawing holds.
    lonely: Vec<usize>,
}

impl Drawing {
    fn new(boxes: &[Size], links: &[Link]) -> Self {
        let (ranks, flipped) = ranks(boxes.len(), links);
        let mut touched = vec![false; boxes.len()];
        for end in links.iter().flat_map(|link| [link.from, link.to]) {
            if let Some(touched) = touched.get_mut(end) {
                *touched = true;
            }
        }
        let mut drawing = Self {
            nodes: Vec::new(),
            columns: Vec::new(),
            spans: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            chains: Vec::new(),
            backwards: Vec::new(),
            lonely: Vec::new(),
        };
        for ((index, size), (rank, touched)) in boxes.iter().enumerate().zip(ranks.iter().zip(&touched)) {
            let own = links.iter().filter(|link| link.from == index && link.to == index);
            let label = own.fold(Size::default(), |size, link| Size {
                width: size.width.max(link.label.width),
                height: size.height.max(link.label.height + LOOP),
            });
            let size = Size { width: size.width.max(label.width), height: size.height + 2.0 * label.height };
            drawing.add(size, rank.saturating_mul(2), *touched);
            if !touched {
                drawing.lonely.push(index);
            }
        }
        for link in links {
            let backwards = flipped.contains(&(link.from, link.to));
            let (left, right) = if backwards { (link.to, link.from) } else { (link.from, link.to) };
            drawing.connect(left, right, link.label);
            drawing.backwards.push(backwards);
        }
        drawing
    }

    fn node(&self, index: usize) -> Node {
        self.nodes.get(index).copied().unwrap_or_default()
    }

    /// Returns the left and the right end of a node's column.
    fn span(&self, index: usize) -> (f64, f64) {
        self.spans.get(self.node(index).column).copied().unwrap_or_default()
    }

    fn add(&mut self, size: Size, column: usize, is_placed: bool) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Node { size, column, ..Node::default() });
        self.before.push(Vec::new());
        self.after.push(Vec::new());
        if is_placed {
            self.columns.resize_with(self.columns.len().max(column.saturating_add(1)), Vec::new);
            if let Some(column) = self.columns.get_mut(column) {
                column.push(index);
            }
        }
        index
    }

    /// Adds an arrow as a chain of nodes, one in each column: its label comes first, then its bends.
    fn connect(&mut self, left: usize, right: usize, label: Size) {
        let mut chain = Vec::new();
        if left != right {
            chain.push(left);
            let (first, last) = (self.node(left).column, self.node(right).column);
            for column in first.saturating_add(1)..last {
                let is_label = column == first.saturating_add(1);
                let size = if is_label { label } else { Size { width: 0.0, height: 10.0 } };
                chain.push(self.add(size, column, true));
            }
            chain.push(right);
        }
        for (one, next) in chain.iter().zip(chain.iter().skip(1)) {
            if let (Some(after), Some(before)) = (self.after.get_mut(*one), self.before.get_mut(*next)) {
                after.push(*next);
                before.push(*one);
            }
        }
        self.chains.push(chain);
    }

    /// Sorts each column by the mean position of each node's neighbours, so that few arrows cross.
    fn sort_columns(&mut self) {
        let mut positions = vec![0.0_f64; self.nodes.len()];
        for sweep in 0..SWEEPS {
            let forward = sweep % 2 == 0;
            for number in sweep_order(self.columns.len(), forward) {
                let neighbours = if forward { &self.before } else { &self.after };
                let Some(column) = self.columns.get_mut(number) else { continue };
                for (position, node) in column.iter().enumerate() {
                    if let Some(own) = positions.get_mut(*node) {
                        *own = position_of(position);
                    }
                }
                let mean = |node: &usize| {
                    mean(neighbours.get(*node).map_or(&[][..], Vec::as_slice), |other| {
                        positions.get(other).copied().unwrap_or_default()
                    })
                    .unwrap_or_else(|| positions.get(*node).copied().unwrap_or_default())
                };
                column.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
                for (position, node) in column.iter().enumerate() {
                    if let Some(own) = positions.get_mut(*node) {
                        *own = position_of(position);
                    }
                }
            }
        }
    }

    /// Gives each node its place: columns side by side, and each node as near to its neighbours' height as the nodes
    /// above and below it let it be.
    fn place(&mut self) {
        let mut x = MARGIN;
        for column in &self.columns {
            let width = column.iter().map(|node| self.nodes.get(*node).map_or(0.0, |node| node.size.width));
            let width = width.fold(0.0, f64::max);
            for node in column {
                if let Some(node) = self.nodes.get_mut(*node) {
                    node.x = x + width / 2.0;
                }
            }
            self.spans.push((x, x + width));
            x += width + COLUMN_GAP;
        }
        for sweep in 0..=SWEEPS {
            let forward = sweep % 2 == 0;
            for number in sweep_order(self.columns.len(), forward) {
                let column = self.columns.get(number).cloned().unwrap_or_default();
                let neighbours = match (sweep, forward) {
                    (0, _) | (_, true) => &self.before,
                    (_, false) => &self.after,
                };
                let desired = column.iter().map(|node| {
                    let near = neighbours.get(*node).map_or(&[][..], Vec::as_slice);
                    mean(near, |other| self.node(other).y).unwrap_or_else(|| self.node(*node).y)
                });
                let desired: Vec<_> = desired.collect();
                let heights: Vec<_> = column.iter().map(|node| self.node(*node).size.height).collect();
                for (node, y) in column.iter().zip(spread(&desired, &heights)) {
                    if let Some(node) = self.nodes.get_mut(*node) {
                        node.y = y;
                    }
                }
            }
        }
    }

    /// Moves the drawing to the margin, adds the boxes without arrows below, and returns the layout.
    fn finish(mut self, boxes: &[Size], links: &[Link]) -> Layout {
        let placed: BTreeSet<_> = self.columns.iter().flatten().copied().collect();
        let top = placed.iter().map(|node| self.top(*node)).fold(f64::INFINITY, f64::min);
        for node in &placed {
            if let Some(node) = self.nodes.get_mut(*node) {
                node.y += MARGIN - top;
            }
        }
        let edges = placed.iter().map(|node| self.node(*node));
        let (mut width, mut height) = edges.fold((0.0_f64, 0.0_f64), |(width, height), node| {
            (width.max(node.x + node.size.width / 2.0), height.max(node.y + node.size.height / 2.0))
        });
        self.place_lonely(&mut width, &mut height);
        let rects = boxes.iter().enumerate().map(|(index, size)| {
            let node = self.node(index);
            let (x, y) = ((node.x - size.width / 2.0).round(), (node.y - size.height / 2.0).round());
            Rect { x, y, width: size.width, height: size.height }
        });
        let rects: Vec<_> = rects.collect();
        let arrows = links.iter().enumerate().map(|(index, link)| self.route(index, link, &rects)).collect();
        Layout { width: (width + MARGIN).ceil(), height: (height + MARGIN).ceil(), boxes: rects, arrows }
    }

    fn top(&self, node: usize) -> f64 {
        let node = self.node(node);
        node.y - node.size.height / 2.0
    }

    /// Fills rows below the drawing with the boxes that have no arrows.
    fn place_lonely(&mut self, width: &mut f64, height: &mut f64) {
        let is_only = *height == 0.0;
        let widest = self.lonely.iter().map(|node| self.node(*node).size.width).fold(0.0, f64::max);
        let limit = width.max(MARGIN + 3.0 * (widest + COLUMN_GAP));
        let (mut x, mut y, mut row) = (MARGIN, if is_only { MARGIN } else { *height + 2.0 * ROW_GAP }, 0.0_f64);
        for index in std::mem::take(&mut self.lonely) {
            let size = self.node(index).size;
            if x > MARGIN && x + size.width > limit {
                (x, y, row) = (MARGIN, y + row + ROW_GAP, 0.0);
            }
            if let Some(node) = self.nodes.get_mut(index) {
                (node.x, node.y) = (x + size.width / 2.0, y + size.height / 2.0);
            }
            row = row.max(size.height);
            *width = width.max(x + size.width);
            *height = height.max(y + size.height);
            x += size.width + COLUMN_GAP;
        }
    }

    fn route(&self, index: usize, link: &Link, boxes: &[Rect]) -> Route {
        let chain = self.chains.get(index).map_or(&[][..], Vec::as_slice);
        let rect = |node: usize| boxes.get(node).copied().unwrap_or_default();
        let ([first, inner @ .., last], Some(label)) = (chain, chain.get(1)) else {
            let Rect { x, y, width, .. } = rect(link.from);
            let middle = x + width / 2.0;
            let (right, left, top) = (middle + 18.0, middle - 18.0, y - LOOP);
            return Route {
                path: format!("M{right:.0} {y:.0}C{right:.0} {top:.0} {left:.0} {top:.0} {left:.0} {y:.0}"),
                label: (middle.round(), (top - link.label.height / 2.0 + 4.0).round()),
            };
        };
        let (from, to) = (rect(*first), rect(*last));
        let ((_, right), (left, _)) = (self.span(*first), self.span(*last));
        let start = from.y + from.height / 2.0;
        let (mut lines, mut line) = (Vec::new(), vec![(from.x + from.width, start), (right, start)]);
        for (number, index) in inner.iter().enumerate() {
            let (node, (left, right)) = (self.node(*index), self.span(*index));
            line.push((left, node.y));
            // The line is interrupted by its label.
            if number == 0 {
                line.push((node.x - node.size.width / 2.0, node.y));
                lines.push(std::mem::replace(&mut line, vec![(node.x + node.size.width / 2.0, node.y)]));
            }
            line.push((right, node.y));
        }
        let end = to.y + to.height / 2.0;
        line.extend([(left, end), (to.x, end)]);
        lines.push(line);
        if self.backwards.get(index) == Some(&true) {
            lines.reverse();
            lines.iter_mut().for_each(|line| line.reverse());
        }
        let label = self.node(*label);
        Route { path: lines.iter().map(|line| path(line)).collect(), label: (label.x.round(), label.y.round()) }
    }
}

/// Returns the column of each box, counted in boxes, and the arrows that point to the left, as pairs of from and to.
fn ranks(count: usize, links: &[Link]) -> (Vec<usize>, BTreeSet<(usize, usize)>) {
    let mut refers = vec![Vec::new(); count];
    let connect = |refers: &mut Vec<Vec<usize>>, from: usize, to: usize| {
        if let Some(refers) = refers.get_mut(from).filter(|_| from != to) {
            refers.push(to);
        }
    };
    links.iter().for_each(|link| connect(&mut refers, link.from, link.to));
    let cycles = DeletionOrder::new(&refers, |_| false).cycles;
    let flipped: BTreeSet<_> = cycles.iter().flat_map(|cycle| feedback_edges(cycle, &refers)).collect();
    let mut acyclic = vec![Vec::new(); count];
    for link in links {
        match flipped.contains(&(link.from, link.to)) {
            true => connect(&mut acyclic, link.to, link.from),
            false => connect(&mut acyclic, link.from, link.to),
        }
    }
    // A deletion takes dependents first, wave by wave: their waves are the columns.
    let mut ranks = vec![0_usize; count];
    for (wave, members) in DeletionOrder::new(&acyclic, |_| false).waves.iter().enumerate() {
        for member in members {
            if let Some(rank) = ranks.get_mut(*member) {
                *rank = wave;
            }
        }
    }
    // Boxes of the first column move towards what they refer to.
    let rank_of = |box_: &usize| ranks.get(*box_).copied().unwrap_or_default();
    let near = |targets: &Vec<usize>| targets.iter().map(rank_of).min().map_or(0, |rank| rank.saturating_sub(1));
    let moved: Vec<_> =
        ranks.iter().zip(&acyclic).map(|(rank, targets)| if *rank == 0 { near(targets) } else { *rank }).collect();
    (moved, flipped)
}

fn sweep_order(count: usize, forward: bool) -> Box<dyn Iterator<Item = usize>> {
    if forward { Box::new(0..count) } else { Box::new((0..count).rev()) }
}

fn mean(nodes: &[usize], value: impl Fn(usize) -> f64) -> Option<f64> {
    let sum: f64 = nodes.iter().map(|node| value(*node)).sum();
    (!nodes.is_empty()).then(|| sum / position_of(nodes.len()))
}

fn position_of(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX))
}

/// Returns centres for nodes of these heights, in this order and without overlap, as near as possible to the desired
/// ones: nodes that would overlap form a block, and a block lies where its nodes want it to be on average.
fn spread(desired: &[f64], heights: &[f64]) -> Vec<f64> {
    struct Block {
        sum: f64,
        count: usize,
    }
    let place = |block: &Block| block.sum / position_of(block.count.max(1));
    let (mut offsets, mut offset, mut previous) = (Vec::new(), 0.0, None);
    for height in heights {
        offset += previous.map_or(0.0, |previous: f64| (previous + height) / 2.0 + ROW_GAP);
        previous = Some(*height);
        offsets.push(offset);
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (desired, offset) in desired.iter().zip(&offsets) {
        let mut block = Block { sum: desired - offset, count: 1 };
        while let Some(last) = blocks.pop_if(|last| place(last) >= place(&block)) {
            block = Block { sum: block.sum + last.sum, count: block.count.saturating_add(last.count) };
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|block| std::iter::repeat_n(place(block), block.count));
    places.zip(&offsets).map(|(place, offset)| place + offset).collect()
}

/// Writes a path through these points: straight lines on one height, and else curves that begin and end level.
fn path(points: &[(f64, f64)]) -> String {
    let mut points = points.iter();
    let Some((mut x, mut y)) = points.next().copied() else { return String::new() };
    let mut path = format!("M{x:.0} {y:.0}");
    for (next_x, next_y) in points {
        let middle = f64::midpoint(x, *next_x);
        path += &match (y - next_y).abs() < 0.5 {
            true => format!("H{next_x:.0}"),
            false => format!("C{middle:.0} {y:.0} {middle:.0} {next_y:.0} {next_x:.0} {next_y:.0}"),
        };
        (x, y) = (*next_x, *next_y);
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrows() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
        (1..14_usize).prop_flat_map(|count| (Just(count), prop::collection::vec((0..count, 0..count), 0..24)))
    }

    fn drawn(count: usize, arrows: &[(usize, usize)]) -> Layout {
        let boxes: Vec<_> = (0..count).map(|index| Size { width: 60.0 + position_of(index), height: 40.0 }).collect();
        let label = Size { width: 90.0, height: 14.0 };
        layout(&boxes, &arrows.iter().map(|&(from, to)| Link { from, to, label }).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn boxes_lie_within_the_drawing_and_never_overlap((count, arrows) in arrows()) {
            let layout = drawn(count, &arrows);
            for (index, one) in layout.boxes.iter().enumerate() {
                prop_assert!(one.x >= 0.0 && one.x + one.width <= layout.width, "{one:?} of {layout:?}");
                prop_assert!(one.y >= 0.0 && one.y + one.height <= layout.height, "{one:?} of {layout:?}");
                for other in layout.boxes.iter().skip(index + 1) {
                    let beside = one.x + one.width <= other.x || other.x + other.width <= one.x;
                    let below = one.y + one.height <= other.y || other.y + other.height <= one.y;
                    prop_assert!(beside || below, "{one:?} and {other:?}");
                }
            }
            prop_assert_eq!(layout.arrows.len(), arrows.len());
            prop_assert_eq!(&layout, &drawn(count, &arrows));
        }

        #[test]
        fn arrows_of_a_graph_without_cycles_point_to_the_right((count, arrows) in arrows()) {
            let arrows: Vec<_> = arrows.into_iter().filter(|(from, to)| from < to).collect();
            let layout = drawn(count, &arrows);
            for (from, to) in arrows {
                let (from, to) = (layout.boxes[from], layout.boxes[to]);
                prop_assert!(from.x + from.width < to.x, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_dependent_is_level_with_its_only_target() {
        let layout = drawn(3, &[(0, 1), (1, 2)]);
        assert_eq!(layout.boxes.iter().map(|place| place.y).collect::<Vec<_>>(), [24.0; 3]);
        assert!(layout.arrows.iter().all(|arrow| !arrow.path.contains('C')), "{layout:?}");
    }
}
