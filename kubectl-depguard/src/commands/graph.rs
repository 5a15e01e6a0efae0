//! `graph`: kinds and rules, as text that other programs draw.

use std::collections::BTreeMap;

use clap::ValueEnum;
use depguard_core::api::OnDelete;
use depguard_core::{GroupResource, Rule};

use crate::cli::Global;
use crate::drawing::{Arrow, Drawing, Look, Shape};
use crate::files::FileArgs;
use crate::outcome::{Failure, Outcome};
use crate::source::Source;
use crate::terminal::Terminal;

/// Draw kinds and the rules between them
///
/// An arrow leads from the kind that refers to the one that it refers to, and says by which rule and field. It is dashed
/// where the rule only warns or audits. In kcp, only rules whose both ends are bound here are drawn.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// In which language
    #[arg(short, long, value_enum, value_name = "LANGUAGE", default_value_t)]
    output: Language,
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
    let source = Source::open(global, &args.files, terminal).await?;
    let drawing = of_kinds(&source, terminal).await?;
    let text = match args.output {
        Language::Dot => drawing.dot(),
        Language::Mermaid => drawing.mermaid(),
    };
    terminal.out().write_all(text.as_bytes())?;
    Ok(Outcome::Well)
}

/// The rules that bear, as arrows between kinds.
async fn of_kinds(source: &Source, terminal: &mut Terminal) -> Result<Drawing, Failure> {
    let rules = source.rules().await?;
    let (mut drawing, mut boxes) = (Drawing::default(), BTreeMap::new());
    for rule in rules.parsed() {
        let rule: Rule = match rule {
            Ok(rule) => rule,
            Err(why) => {
                terminal.note(&format!("a rule that can't be used is not drawn: {why}"))?;
                continue;
            }
        };
        for edge in rule.edges().iter().filter(|edge| rules.bears(&rule, edge)) {
            let dependent = (rule.dependent().gvr.group_resource(), Some(rule.dependent().kind.to_string()));
            let target = (edge.target.gvr.group_resource(), edge.target.kind.as_ref().map(ToString::to_string));
            let mut ends = [0, 0];
            for (end, (kind, name)) in ends.iter_mut().zip([dependent, target]) {
                *end = place(&mut drawing, &mut boxes, &kind);
                if let (Some(name), Some(shape)) = (name, drawing.boxes.get_mut(*end)) {
                    shape.lines = vec![name, kind.to_string()];
                }
            }
            let [from, to] = ends;
            let (dashed, weaker) = match edge.on_delete {
                OnDelete::Deny => (false, ""),
                OnDelete::Warn => (true, " (Warn)"),
                OnDelete::Audit => (true, " (Audit)"),
            };
            let line = format!("{}: {}{weaker}", rule.key().name, edge.reference.path());
            drawing.arrows.push(Arrow { from, to, lines: vec![line], dashed });
        }
    }
    // A rule need not say its target's kind; whoever serves or defines it does.
    let unnamed: Vec<_> = boxes.into_iter().filter(|(_, at)| drawing.boxes.get(*at).is_some_and(is_unnamed)).collect();
    for (kind, at) in unnamed {
        if let (Ok(Some(known)), Some(shape)) = (source.kind_of(&kind).await, drawing.boxes.get_mut(at)) {
            shape.lines = vec![known.kind, kind.to_string()];
        }
    }
    for unread in rules.unread {
        terminal.note(&format!("could not look at {unread}"))?;
    }
    Ok(drawing)
}

/// The box of a kind, made where there is none yet.
fn place(drawing: &mut Drawing, boxes: &mut BTreeMap<GroupResource, usize>, kind: &GroupResource) -> usize {
    *boxes.entry(kind.clone()).or_insert_with(|| {
        drawing.boxes.push(Shape { lines: vec![kind.to_string()], look: Look::Plain });
        drawing.boxes.len().saturating_sub(1)
    })
}

fn is_unnamed(shape: &Shape) -> bool {
    shape.lines.len() == 1
}
