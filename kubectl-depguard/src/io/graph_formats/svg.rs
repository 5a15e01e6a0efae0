//! Graphs as SVG pictures, which need no other program and no network.

use std::fmt::Write as _;

use super::layout::{Layout, Link, Rect, Size, layout};
use super::{Arrow, BoxStyle, Graph, Shape};
use crate::io::exit::Failure;
use crate::io::xml;

/// Limit on the boxes and arrows of a picture.
const MAX_SHAPES: usize = 3000;
/// Limit on the characters of a line; longer ones are cut, and shown in full when pointed at.
const MAX_CHARS: usize = 56;
/// Width of a character of the monospace font in the two sizes of text, and the height of a line.
const NAME_CHAR: f64 = 7.3;
const SMALL_CHAR: f64 = 6.1;
const LINE: f64 = 17.0;
const PADDING: f64 = 12.0;
/// Height of the legend below the picture.
const LEGEND: f64 = 44.0;

const STYLE: &str = "\
svg{--paper:#fff;--ink:#1c2430;--faint:#5b6675;--line:#7b8694;--box:#f6f8fa;--edge:#c3cad3;--bad:#c0262d;--focus:#0b62c4}\
@media(prefers-color-scheme:dark){svg{--paper:#12161c;--ink:#e6eaf0;--faint:#9aa6b5;--line:#7d8998;--box:#1b212a;\
--edge:#3a4452;--bad:#ff7b72;--focus:#6cb2ff}}\
.paper{fill:var(--paper)}\
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:var(--ink);\
unicode-bidi:isolate}\
.small{font-size:10px;fill:var(--faint)}\
.box{fill:var(--box);stroke:var(--edge)}\
.blocker{stroke:var(--bad);stroke-width:2}\
.focus{stroke:var(--focus);stroke-width:2}\
.missing{fill:none;stroke:var(--line);stroke-dasharray:2 4}\
.arrow{fill:none;stroke:var(--line);stroke-width:1.3}\
.dashed{stroke-dasharray:6 4}\
.head{fill:var(--line)}\
.halo{stroke:var(--paper);stroke-width:5;paint-order:stroke;stroke-linejoin:round}";

impl Graph {
    /// Draws the graph as SVG, with a title for those who can't see it.
    pub(crate) fn svg(&self, title: &str) -> Result<String, Failure> {
        let shapes = self.boxes.len().saturating_add(self.arrows.len());
        if shapes > MAX_SHAPES {
            return Err(Failure::new(format!("a picture of {shapes} boxes and arrows could not be read by anybody"))
                .hint("draw the surroundings of one object with --focus KIND/NAME, or search all of them in -o html"));
        }
        let (arrows, layout) = self.arranged();
        let legend = self.legend(&arrows);
        let bottom = if legend.is_empty() { 0.0 } else { LEGEND };
        let (width, height) = (layout.width.max(legend_width(&legend)), layout.height + bottom);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
            escaped(title),
            escaped(&self.description(&arrows)),
        );
        for (arrow, route) in arrows.iter().zip(&layout.arrows) {
            let dashed = if arrow.dashed { " dashed" } else { "" };
            // Writing to a string can't fail.
            let _ = writeln!(svg, "<path class=\"arrow{dashed}\" marker-end=\"url(#head)\" d=\"{}\"/>", route.path);
        }
        for (arrow, route) in arrows.iter().zip(&layout.arrows) {
            let top = route.label.1 - label_size(&arrow.lines).height / 2.0;
            lines(&mut svg, &arrow.lines, (route.label.0, top), 13.0, |_| "small halo");
        }
        for (shape, place) in self.boxes.iter().zip(&layout.boxes) {
            draw_box(&mut svg, shape, *place);
        }
        draw_legend(&mut svg, &legend, layout.height);
        Ok(svg + "</svg>\n")
    }

    /// Returns the arrows, with all labels of those between the same boxes on one, and the layout of boxes and arrows.
    pub(crate) fn arranged(&self) -> (Vec<Arrow>, Layout) {
        let arrows = self.merged_arrows();
        let boxes: Vec<_> = self.boxes.iter().map(|shape| box_size(&shape.lines)).collect();
        let link = |arrow: &Arrow| Link { from: arrow.from, to: arrow.to, label: label_size(&arrow.lines) };
        let layout = layout(&boxes, &arrows.iter().map(link).collect::<Vec<_>>());
        (arrows, layout)
    }

    /// Merges arrows between the same boxes into one with all their labels.
    fn merged_arrows(&self) -> Vec<Arrow> {
        let mut merged: Vec<Arrow> = Vec::new();
        let mut known = std::collections::BTreeMap::new();
        for arrow in &self.arrows {
            let place = *known.entry((arrow.from, arrow.to, arrow.dashed)).or_insert(merged.len());
            match merged.get_mut(place) {
                Some(same) => same.lines.extend(arrow.lines.iter().cloned()),
                None => merged.push(arrow.clone()),
            }
        }
        for arrow in &mut merged {
            arrow.lines.dedup();
        }
        merged
    }

    /// Describes the graph in words, one sentence for each arrow.
    fn description(&self, arrows: &[Arrow]) -> String {
        let name =
            |index: usize| self.boxes.get(index).and_then(|shape| shape.lines.first()).map_or("", String::as_str);
        let sentence =
            |arrow: &Arrow| format!("{} refers to {} ({}).", name(arrow.from), name(arrow.to), arrow.lines.join(", "));
        arrows.iter().map(sentence).collect::<Vec<_>>().join(" ")
    }

    /// Explains the styles that the picture uses.
    fn legend(&self, arrows: &[Arrow]) -> Vec<(&'static str, &'static str)> {
        let has = |look: BoxStyle| self.boxes.iter().any(|shape| shape.look == look);
        let mut legend = Vec::new();
        for (look, meaning) in [
            (BoxStyle::Focus, "the object in question"),
            (BoxStyle::Blocker, "blocks its deletion"),
            (BoxStyle::Missing, "does not exist"),
        ] {
            if has(look) {
                legend.push((class(look), meaning));
            }
        }
        if arrows.iter().any(|arrow| arrow.dashed) {
            legend.push(("dashed", "only warns or audits"));
        }
        legend
    }
}

fn class(look: BoxStyle) -> &'static str {
    match look {
        BoxStyle::Plain => "box",
        BoxStyle::Focus => "box focus",
        BoxStyle::Blocker => "box blocker",
        BoxStyle::Missing => "box missing",
    }
}

fn box_size(lines: &[String]) -> Size {
    let width = |(number, line): (usize, &String)| width_of(line, if number == 0 { NAME_CHAR } else { SMALL_CHAR });
    let width = lines.iter().enumerate().map(width).fold(40.0, f64::max);
    Size { width: (width + 2.0 * PADDING).ceil(), height: LINE * count(lines.len()) + PADDING }
}

fn label_size(lines: &[String]) -> Size {
    let width = lines.iter().map(|line| width_of(line, SMALL_CHAR)).fold(0.0, f64::max);
    Size { width: width.ceil() + 10.0, height: 13.0 * count(lines.len()) }
}

fn width_of(line: &str, char: f64) -> f64 {
    // Characters beyond Latin may be twice as wide.
    let line = cut(line);
    line.chars().map(|c| if c.is_ascii() { char } else { 2.0 * char }).sum()
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Cuts the middle out of a long line.
fn cut(line: &str) -> String {
    let length = line.chars().count();
    if length <= MAX_CHARS {
        return line.to_owned();
    }
    let half = MAX_CHARS / 2;
    let head: String = line.chars().take(half).collect();
    let tail: String = line.chars().skip(length.saturating_sub(half)).collect();
    format!("{head}…{tail}")
}

fn draw_box(svg: &mut String, shape: &Shape, place: Rect) {
    let Rect { x, y, width, height } = place;
    let (class, title) = (class(shape.look), escaped(&shape.lines.join(" ")));
    let _ = writeln!(
        svg,
        "<g><title>{title}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
         rx=\"7\"/>",
    );
    let middle = x + width / 2.0;
    lines(svg, &shape.lines, (middle, y + PADDING / 2.0), LINE, |number| if number == 0 { "name" } else { "small" });
    svg.push_str("</g>\n");
}

/// Writes lines of text, centred below each other.
fn lines(svg: &mut String, lines: &[String], (x, top): (f64, f64), height: f64, class: impl Fn(usize) -> &'static str) {
    for (number, line) in lines.iter().enumerate() {
        let (class, y) = (class(number), top + height * count(number) + height * 0.72);
        let text = escaped(&cut(line));
        let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{text}</text>");
    }
}

fn legend_width(legend: &[(&str, &str)]) -> f64 {
    legend.iter().fold(48.0, |width, (_, meaning)| width + width_of(meaning, SMALL_CHAR) + 56.0)
}

fn draw_legend(svg: &mut String, legend: &[(&str, &str)], top: f64) {
    let (mut x, y) = (24.0, top + 10.0);
    for (class, meaning) in legend {
        let _ = match *class {
            "dashed" => {
                writeln!(svg, "<path class=\"arrow dashed\" d=\"M{x} {}H{}\"/>", y + 7.0, x + 24.0)
            }
            class => {
                writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"24\" height=\"14\" rx=\"4\"/>")
            }
        };
        let _ = writeln!(svg, "<text class=\"small\" x=\"{}\" y=\"{}\">{meaning}</text>", x + 32.0, y + 11.0);
        x += width_of(meaning, SMALL_CHAR) + 56.0;
    }
}

/// Escapes a text. Characters that would turn the direction of text, and control characters, are shown as unknown ones.
fn escaped(text: &str) -> String {
    let visible = |c: char| match c {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    xml::escaped(&text.chars().map(visible).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(line: &str, look: BoxStyle) -> Shape {
        Shape { lines: vec![line.to_owned()], look }
    }

    fn graph(line: &str) -> Graph {
        Graph {
            boxes: vec![shape(line, BoxStyle::Plain), shape("VPC", BoxStyle::Plain)],
            arrows: vec![Arrow { from: 0, to: 1, lines: vec![line.to_owned()], dashed: false }],
        }
    }

    #[test]
    fn no_name_becomes_markup() {
        for hostile in ["</svg><script>alert(1)</script>", "a\"b'c&d\u{0}\u{1b}[31m", "\u{202e}gnp.exe", "]]>"] {
            let svg = graph(hostile).svg(hostile).unwrap();
            assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
            assert!(!svg.contains("<script") && !svg.contains(['\u{0}', '\u{1b}', '\u{202e}']), "{svg}");
            let tags: Vec<_> = svg.split('<').skip(1).filter_map(|tag| tag.split(['>', ' ']).next()).collect();
            let known = ["svg", "title", "desc", "style", "defs", "marker", "path", "rect", "g", "text"];
            assert!(tags.iter().all(|tag| known.contains(&tag.trim_start_matches('/'))), "{tags:?}");
        }
    }

    #[test]
    fn the_legend_explains_the_styles_in_use_and_no_others() {
        let mut graph = graph("VM");
        let plain = graph.svg("kinds").unwrap();
        assert!(!plain.contains("blocks its deletion") && !plain.contains("does not exist"), "{plain}");
        graph.boxes[0].look = BoxStyle::Blocker;
        graph.arrows[0].dashed = true;
        let svg = graph.svg("kinds").unwrap();
        assert!(svg.contains(">blocks its deletion<") && svg.contains(">only warns or audits<"), "{svg}");
        assert!(!svg.contains("does not exist"), "{svg}");
    }

    #[test]
    fn arrows_between_the_same_boxes_are_one_with_all_labels() {
        let mut graph = graph("VM");
        graph.arrows.push(Arrow { from: 0, to: 1, lines: vec!["other".to_owned()], dashed: false });
        let svg = graph.svg("kinds").unwrap();
        assert_eq!(svg.matches("marker-end").count(), 1, "{svg}");
        assert!(svg.contains("VM refers to VPC (VM, other)."), "{svg}");
    }

    #[test]
    fn a_long_name_is_cut_and_shown_in_full_when_pointed_at() {
        let name = format!("{}{}", "a".repeat(100), "z".repeat(100));
        let svg = graph(&name).svg("kinds").unwrap();
        assert!(svg.contains(&format!("<title>{name}</title>")), "{svg}");
        assert!(svg.contains(&format!(">{}…{}<", "a".repeat(28), "z".repeat(28))), "{svg}");
    }

    #[test]
    fn a_picture_that_nobody_could_read_is_refused() {
        let boxes = (0..=MAX_SHAPES).map(|index| shape(&index.to_string(), BoxStyle::Plain)).collect();
        let failure = Graph { boxes, arrows: Vec::new() }.svg("objects").unwrap_err();
        assert!(failure.what_to_do().is_some_and(|hint| hint.contains("--focus")), "{failure:?}");
    }
}
