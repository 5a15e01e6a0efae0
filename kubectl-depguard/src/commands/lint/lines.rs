//! Positions of a document's fields.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Positions of a document's fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Node);

/// Line and column of a field, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    /// Column, in characters.
    pub(super) column: usize,
}

/// Value in a document: each field or element has its position.
#[derive(Debug, Clone, Default)]
enum Node {
    Map(Vec<(String, Position, Node)>),
    List(Vec<(Position, Node)>),
    #[default]
    Leaf,
}

impl Lines {
    /// Reads the text of one document. A text that can't be read has no positions.
    pub(super) fn read(text: &str) -> Self {
        Self(crate::cluster::yaml::read(text).unwrap_or_default())
    }

    /// Returns the position of a field such as `spec.dependencies[0].fieldRef.path`. If the field doesn't exist, returns
    /// that of the innermost existing field around it; `None` if not even the first one exists.
    pub(super) fn of(&self, field: &str) -> Option<Position> {
        let (mut node, mut rest, mut position) = (&self.0, field, None);
        while let Some((next, at, after)) = node.step(rest) {
            (node, rest, position) = (next, after, Some(at));
        }
        position
    }
}

impl Node {
    /// Takes the first step of a field path. Returns the node, its position, and the remaining steps. A name may contain
    /// dots: the longest name wins.
    fn step<'n, 'f>(&'n self, field: &'f str) -> Option<(&'n Node, Position, &'f str)> {
        let field = field.strip_prefix('.').unwrap_or(field);
        match self {
            Self::Map(fields) => {
                let fits = |name: &str| {
                    let rest = field.strip_prefix(name)?;
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
                };
                let found = fields.iter().filter_map(|(name, at, node)| Some((name, *at, node, fits(name)?)));
                let (_, at, node, rest) = found.max_by_key(|(name, ..)| name.len())?;
                Some((node, at, rest))
            }
            Self::List(items) => {
                let (index, rest) = field.strip_prefix('[')?.split_once(']')?;
                let (at, node) = items.get(index.parse::<usize>().ok()?)?;
                Some((node, *at, rest))
            }
            Self::Leaf => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            fields.push((name.value, position(name.referenced), map.next_value()?));
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Node>>()? {
            found.push((position(item.referenced), item.value));
        }
        Ok(Node::List(found))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Node::Leaf)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
}

fn position(at: serde_saphyr::Location) -> Position {
    let number = |number| usize::try_from(number).unwrap_or_default();
    Position { line: number(at.line()), column: number(at.column()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_line_and_a_missing_one_by_what_is_around_it() {
        let yaml = "\
# a rule
kind: DependencyRule
spec:
  dependent:
    selector: {matchLabels: {example.com/tier: prod}}
    version: 1
  dependencies:
  - group: a
    fieldRef:
      path: >-
        .spec.a
  -
    group: b
    when: {path: .x, in: [true, 1.5, null, -3]}
";
        let lines = Lines::read(yaml);
        for (field, line) in [
            ("kind", Some(2)),
            ("spec", Some(3)),
            ("spec.dependent.selector.matchLabels.example.com/tier", Some(5)),
            ("spec.dependent.version", Some(6)),
            ("spec.dependencies", Some(7)),
            ("spec.dependencies[0].group", Some(8)),
            ("spec.dependencies[0].fieldRef.path", Some(10)),
            ("spec.dependencies[0].fieldRef.namespacePath", Some(9)),
            ("spec.dependencies[1].group", Some(13)),
            ("spec.dependencies[1].when.in[2]", Some(14)),
            ("spec.dependencies[7].group", Some(7)),
            ("metadata.name", None),
            ("", None),
        ] {
            assert_eq!(lines.of(field).map(|at| at.line), line, "{field}");
        }
        assert_eq!(
            Lines::read("{\n \"a\": [\n  {\"b\": 1}\n ]\n}").of("a[0].b"),
            Some(Position { line: 3, column: 4 })
        );
        assert_eq!(Lines::read("a: [").of("a"), None);
    }
}
