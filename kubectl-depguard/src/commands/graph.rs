//! `graph`: kinds and rules, or objects and their references, as text that other programs draw.

use clap::ValueEnum;
use depguard_core::Edge;
use depguard_core::api::OnDelete;

use crate::cli::Global;
use crate::drawing::Arrow;
use crate::files::FileArgs;
use crate::outcome::{Failure, Outcome};
use crate::source::Source;
use crate::terminal::Terminal;

mod kinds;
mod objects;

/// Draw kinds and the rules between them, or objects and what they refer to
///
/// An arrow leads from the kind that refers to the one that it refers to, and says by which rule and field. It is dashed
/// where the rule only warns or audits. In kcp, only rules whose both ends are bound here are drawn.
///
/// With --objects the same is drawn of the objects of a namespace: blockers, which keep another from being deleted, stand
/// out in red, and what is referred to and isn't there is dotted.
///
/// Exit code: 2 where there was nothing to look at: no rule that applies, no such namespace, no object.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// In which language
    #[arg(short, long, value_enum, value_name = "LANGUAGE", default_value_t)]
    output: Language,

    /// Draw the objects of a namespace (-n), or of all (-A)
    #[arg(long)]
    objects: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Language {
    /// Graphviz: `| dot -Tsvg`
    #[default]
    Dot,
    /// Mermaid, which Markdown on many sites holds
    Mermaid,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    if !args.objects && (global.namespace.is_some() || global.all_namespaces) {
        terminal.note("kinds are in no namespace, so that -n and -A are passed over: --objects draws objects")?;
    }
    let source = Source::open(global, &args.files, terminal).await?;
    let drawing = match args.objects {
        false => kinds::draw(&source, terminal).await?,
        true => objects::draw(&source, source.scope(global)?.as_ref(), terminal).await?,
    };
    let text = match args.output {
        Language::Dot => drawing.dot(),
        Language::Mermaid => drawing.mermaid(),
    };
    terminal.out().write_all(text.as_bytes())?;
    Ok(Outcome::Well)
}

/// An arrow that says by which rule and field.
fn arrow(from: usize, to: usize, rule: &str, edge: &Edge) -> Arrow {
    let (dashed, weaker) = match edge.on_delete {
        OnDelete::Deny => (false, ""),
        OnDelete::Warn => (true, " (Warn)"),
        OnDelete::Audit => (true, " (Audit)"),
    };
    Arrow { from, to, lines: vec![format!("{rule}: {}{weaker}", edge.reference)], dashed }
}
