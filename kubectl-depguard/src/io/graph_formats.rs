//! Graphs as text for Graphviz and Mermaid, and as SVG.

use std::fmt::Write as _;

mod layout;
mod neighbourhood;
mod svg;

pub(crate) use self::layout::Rect;

/// Graph of boxes and arrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) boxes: Vec<Shape>,
    pub(crate) arrows: Vec<Arrow>,
}

/// Box of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) lines: Vec<String>,
    pub(crate) look: BoxStyle,
}

/// Style of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoxStyle {
    Plain,
    /// Object in question.
    Focus,
    /// Object that blocks the deletion of the object in question.
    Blocker,
    /// Object that is referred to but doesn't exist.
    Missing,
}

/// Arrow from one box to another, each given by its index in the list of boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) lines: Vec<String>,
    pub(crate) dashed: bool,
}

impl Graph {
    /// Writes the graph in the language of Graphviz.
    pub(crate) fn dot(&self) -> String {
        let mut text = "digraph depguard {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
        for (number, shape) in self.boxes.iter().enumerate() {
            let look = match shape.look {
                BoxStyle::Plain => "",
                BoxStyle::Focus => ", color=\"#0b62c4\", penwidth=2",
                BoxStyle::Blocker => ", color=\"#cc0000\", penwidth=2",
                BoxStyle::Missing => ", style=dotted",
            };
            let _ = writeln!(text, "  n{number} [label={}{look}];", dot_label(&shape.lines));
        }
        for arrow in &self.arrows {
            let style = if arrow.dashed { ", style=dashed" } else { "" };
            let label = dot_label(&arrow.lines);
            let _ = writeln!(text, "  n{} -> n{} [label={label}{style}];", arrow.from, arrow.to);
        }
        text + "}\n"
    }

    /// Writes the graph in the language of Mermaid.
    pub(crate) fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n".to_owned();
        for (number, shape) in self.boxes.iter().enumerate() {
            let _ = writeln!(text, "  n{number}[{}]", mermaid_label(&shape.lines));
        }
        for arrow in &self.arrows {
            let line = if arrow.dashed { "-.->" } else { "-->" };
            let _ = writeln!(text, "  n{} {line}|{}| n{}", arrow.from, mermaid_label(&arrow.lines), arrow.to);
        }
        let looks = [
            (BoxStyle::Focus, "focus", "stroke:#0b62c4,stroke-width:3px"),
            (BoxStyle::Blocker, "blocker", "stroke:#cc0000,stroke-width:3px"),
            (BoxStyle::Missing, "missing", "stroke-dasharray:2 4"),
        ];
        for (look, class, style) in looks {
            let numbers = self.boxes.iter().enumerate().filter(|(_, shape)| shape.look == look);
            let named: Vec<_> = numbers.map(|(number, _)| format!("n{number}")).collect();
            if !named.is_empty() {
                let _ = writeln!(text, "  classDef {class} {style};\n  class {} {class};", named.join(","));
            }
        }
        text
    }
}

/// Quotes a label. In labels, a backslash begins an escape: the end of a line, or a name that Graphviz fills in.
fn dot_label(lines: &[String]) -> String {
    let mut label = "\"".to_owned();
    for (number, line) in lines.iter().enumerate() {
        label += if number > 0 { "\\n" } else { "" };
        for c in line.chars() {
            match c {
                '"' | '\\' => label.extend(['\\', c]),
                // Graphviz reads HTML entities; an ampersand must not begin one.
                '&' => label += "&amp;",
                c if c.is_control() => label.push('\u{fffd}'),
                c => label.push(c),
            }
        }
    }
    label + "\""
}

/// Quotes a label. A character with a meaning in Mermaid, or in the HTML that Mermaid makes, is written as its number.
fn mermaid_label(lines: &[String]) -> String {
    let mut label = "\"".to_owned();
    for (number, line) in lines.iter().enumerate() {
        label += if number > 0 { "<br/>" } else { "" };
        for c in line.chars() {
            match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '.' | '-' | '/' | ':' | '[' | ']' => label.push(c),
                c if c.is_control() => label += "#65533;",
                c => {
                    let _ = write!(label, "#{};", u32::from(c));
                }
            }
        }
    }
    label + "\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the lines of a label. Graphviz reads a quoted string first and the label in it second; this function
    /// does, too.
    fn read_dot(label: &str) -> Vec<String> {
        let inner = label.strip_prefix('"').and_then(|label| label.strip_suffix('"')).unwrap();
        let (mut lines, mut chars) = (vec![String::new()], inner.chars());
        while let Some(c) = chars.next() {
            assert_ne!(c, '"', "the string ends early: {label}");
            match c {
                '\\' => match chars.next().unwrap() {
                    'n' => lines.push(String::new()),
                    escaped @ ('"' | '\\') => lines.last_mut().unwrap().push(escaped),
                    other => panic!("\\{other} means something else: {label}"),
                },
                c => lines.last_mut().unwrap().push(c),
            }
        }
        for line in &mut lines {
            assert!(!line.replace("&amp;", "").contains('&'), "{label}");
            *line = line.replace("&amp;", "&");
        }
        lines
    }

    /// Returns the lines of a label as Mermaid reads it: with entities by number, and line breaks.
    fn read_mermaid(label: &str) -> Vec<String> {
        let inner = label.strip_prefix('"').and_then(|label| label.strip_suffix('"')).unwrap();
        let mut lines = Vec::new();
        for line in inner.split("<br/>") {
            assert!(!line.contains(['"', '<', '>', '&', '`', '|', '\n']), "{label}");
            let mut parts = line.split('#');
            let mut read = parts.next().unwrap().to_owned();
            for part in parts {
                let (number, rest) = part.split_once(';').unwrap();
                read.push(char::from_u32(number.parse().unwrap()).unwrap());
                read += rest;
            }
            lines.push(read);
        }
        lines
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_read_back_whatever_it_holds(lines in prop::collection::vec(r#"[ -~äß→<&>#;"\\\[\]|`]{0,12}"#, 1..4)) {
            prop_assert_eq!(read_dot(&dot_label(&lines)), lines.clone());
            prop_assert_eq!(read_mermaid(&mermaid_label(&lines)), lines);
        }

        #[test]
        fn nothing_ends_a_line_that_is_drawn(line in "\\PC*|.*\n.*|[\\x00-\\x1f]*") {
            let lines = [line];
            for label in [dot_label(&lines), mermaid_label(&lines)] {
                prop_assert!(!label.contains(|c: char| c.is_control()), "{}", label);
            }
        }
    }

    #[test]
    fn a_drawing_in_either_language() {
        let shape = |line: &str, look| Shape { lines: vec![line.to_owned()], look };
        let arrow = |to, dashed| Arrow { from: 0, to, lines: vec!["r: .spec['a\"b']".to_owned()], dashed };
        let drawing = Graph {
            boxes: vec![
                shape("VM", BoxStyle::Blocker),
                shape("VPC", BoxStyle::Plain),
                shape("Disk", BoxStyle::Missing),
            ],
            arrows: vec![arrow(1, false), arrow(2, true)],
        };
        assert_eq!(
            drawing.dot(),
            r##"digraph depguard {
  rankdir=LR;
  node [shape=box];
  n0 [label="VM", color="#cc0000", penwidth=2];
  n1 [label="VPC"];
  n2 [label="Disk", style=dotted];
  n0 -> n1 [label="r: .spec['a\"b']"];
  n0 -> n2 [label="r: .spec['a\"b']", style=dashed];
}
"##
        );
        assert_eq!(
            drawing.mermaid(),
            r#"flowchart LR
  n0["VM"]
  n1["VPC"]
  n2["Disk"]
  n0 -->|"r: .spec[#39;a#34;b#39;]"| n1
  n0 -.->|"r: .spec[#39;a#34;b#39;]"| n2
  classDef blocker stroke:#cc0000,stroke-width:3px;
  class n0 blocker;
  classDef missing stroke-dasharray:2 4;
  class n2 missing;
"#
        );
    }
}
