//! `graph`: draws kinds and rules, or objects and their references.

use clap::ValueEnum;
use depguard_core::api::{OnDelete, OnMissing};
use depguard_core::rule::Edge;

use crate::cluster::files::FileArgs;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::page::{PageUse, page};
use crate::io::exit::{Failure, Outcome};
use crate::io::graph_formats::Arrow;
use crate::io::terminal::Terminal;
use crate::options::Global;

mod kinds;
mod objects;

/// Draw kinds and the rules between them, or objects and their references
///
/// An arrow points from the kind of the dependents to the kind of their targets. It shows the rule and the field, and
/// is dashed if the rule only warns or audits. In kcp, the drawing has only rules whose two kinds are both bound here.
///
/// With --objects, the drawing shows the objects of a namespace instead; missing targets are dotted. With -l or
/// --field-selector, it shows the selected objects, and those that refer to them or to which they refer. With --focus, it
/// shows one object and its surroundings, in all namespaces that you may read. Objects that keep that object from being
/// deleted are red, and a box with `+3 more` has three neighbours that are not drawn.
///
/// With -o html, the command writes one file for a browser: it draws the kinds, finds objects, and shows for each who
/// blocks it, what it refers to, and the order in which these could be deleted. It covers all namespaces that you may
/// read, or else the one of -n. `kubectl depguard ui` serves the same page.
///
/// Exit code: 2 if the drawing is incomplete, because a rule can't be used or something could not be read, or if there
/// was nothing to draw: no rule that applies, no such namespace, no object.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    #[command(flatten)]
    selection: Selection,

    /// Language of the drawing
    #[arg(short, long, value_enum, value_name = "LANGUAGE", default_value_t)]
    output: Language,

    /// Draw the objects of a namespace (-n), or of all namespaces (-A)
    #[arg(long)]
    objects: bool,

    /// Draw this object and its surroundings; -n names the namespace
    #[arg(long, value_name = "KIND/NAME")]
    focus: Option<String>,

    /// Number of arrows from the focus to the farthest object that is drawn [default: 2]
    #[arg(long, value_name = "NUMBER", requires = "focus", value_parser = clap::value_parser!(u8).range(1..=20))]
    depth: Option<u8>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Language {
    /// Graphviz, for `| dot -Tsvg`
    #[default]
    Dot,
    /// Mermaid, for Markdown
    Mermaid,
    /// Picture for a browser or a document
    Svg,
    /// Page for a browser, with all objects to search; needs no network
    Html,
}

/// Default of `--depth`.
const DEPTH: u8 = 2;

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let takes_selection = args.objects && !matches!(args.output, Language::Html);
    if !takes_selection && !args.selection.is_empty() {
        return Err(Failure::new("-l and --field-selector would have no effect: only a drawing of objects takes them")
            .hint("add --objects, or leave them out"));
    }
    if matches!(args.output, Language::Html) {
        return write_page(&args, global, terminal).await;
    }
    let draws_kinds = !args.objects && args.focus.is_none();
    if draws_kinds && (global.namespace.is_some() || global.all_namespaces) {
        terminal.note("ignored -n and -A: kinds have no namespace; --objects draws objects")?;
    }
    let source = Source::open(global, &args.files, terminal).await?;
    let (drawing, coverage, title) = match &args.focus {
        Some(focus) => {
            let depth = usize::from(args.depth.unwrap_or(DEPTH));
            let (drawing, coverage) = objects::draw_focus(&source, global, focus, depth, terminal).await?;
            (drawing, coverage, format!("References around {focus}"))
        }
        None if args.objects => {
            let (drawing, coverage) =
                objects::draw(&source, source.scope(global)?.as_ref(), &args.selection, terminal).await?;
            (drawing, coverage, "References between objects".to_owned())
        }
        None => {
            let (drawing, coverage) = kinds::draw(&source, terminal).await?;
            (drawing, coverage, "Kinds, and the rules between them".to_owned())
        }
    };
    let text = match args.output {
        Language::Dot => drawing.dot(),
        Language::Mermaid => drawing.mermaid(),
        Language::Svg | Language::Html => drawing.svg(&title)?,
    };
    terminal.out().write_all(text.as_bytes())?;
    coverage.all_is_well("the drawing is incomplete")
}

async fn write_page(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    if args.objects || args.focus.is_some() {
        terminal.note("ignored --objects and --focus: the page has all objects, and finds each")?;
    }
    let source = Source::open(global, &args.files, terminal).await?;
    let (html, coverage) = page(&source, global, &args.files, PageUse::File, terminal).await?;
    terminal.out().write_all(html.as_bytes())?;
    coverage.all_is_well("the page is incomplete")
}

/// Builds an arrow. Its label has the rule, the field, and the rule's `onDelete` and `onMissing` unless they are the
/// defaults.
fn arrow(from: usize, to: usize, rule: &str, edge: &Edge) -> Arrow {
    let (dashed, weaker) = match edge.on_delete {
        OnDelete::Deny => (false, ""),
        OnDelete::Warn => (true, " (Warn)"),
        OnDelete::Audit => (true, " (Audit)"),
    };
    let missing = match edge.on_missing {
        OnMissing::Ignore => "",
        OnMissing::Audit => " (missing: Audit)",
        OnMissing::Warn => " (missing: Warn)",
        OnMissing::Deny => " (missing: Deny)",
    };
    Arrow { from, to, lines: vec![format!("{rule}: {}{weaker}{missing}", edge.reference)], dashed }
}
