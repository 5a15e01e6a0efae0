//! `graph`: prints kinds and rules, or objects and their references, as text that other programs draw.

use clap::ValueEnum;
use depguard_core::api::OnDelete;
use depguard_core::rule::Edge;

use crate::cluster::files::FileArgs;
use crate::cluster::source::Source;
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
/// With --objects, the drawing shows the objects of a namespace instead. Blockers, which keep another object from being
/// deleted, are red; missing targets are dotted.
///
/// Exit code: 2 if the drawing is incomplete, because a rule can't be used or something could not be read, or if there
/// was nothing to draw: no rule that applies, no such namespace, no object.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Language of the drawing
    #[arg(short, long, value_enum, value_name = "LANGUAGE", default_value_t)]
    output: Language,

    /// Draw the objects of a namespace (-n), or of all namespaces (-A)
    #[arg(long)]
    objects: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Language {
    /// Graphviz, for `| dot -Tsvg`
    #[default]
    Dot,
    /// Mermaid, for Markdown
    Mermaid,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    if !args.objects && (global.namespace.is_some() || global.all_namespaces) {
        terminal.note("ignored -n and -A: kinds have no namespace; --objects draws objects")?;
    }
    let source = Source::open(global, &args.files, terminal).await?;
    let (drawing, coverage) = match args.objects {
        false => kinds::draw(&source, terminal).await?,
        true => objects::draw(&source, source.scope(global)?.as_ref(), terminal).await?,
    };
    let text = match args.output {
        Language::Dot => drawing.dot(),
        Language::Mermaid => drawing.mermaid(),
    };
    terminal.out().write_all(text.as_bytes())?;
    coverage.all_is_well("the drawing is incomplete")
}

/// Builds an arrow with the rule and the field as its label.
fn arrow(from: usize, to: usize, rule: &str, edge: &Edge) -> Arrow {
    let (dashed, weaker) = match edge.on_delete {
        OnDelete::Deny => (false, ""),
        OnDelete::Warn => (true, " (Warn)"),
        OnDelete::Audit => (true, " (Audit)"),
    };
    Arrow { from, to, lines: vec![format!("{rule}: {}{weaker}", edge.reference)], dashed }
}
