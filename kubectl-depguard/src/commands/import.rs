//! `kubectl depguard import`: rules from what a provider has already written.

mod derive;
mod fields;
mod path;
mod print;
mod report;
mod rewriting;
mod side;
mod written;

use clap::ValueEnum;
use depguard_core::api::OnDelete;
use depguard_core::{LogicalCluster, Namespace};

use self::derive::{Import, Imported};
use self::side::{Exports, Side};
use self::written::Published;
use crate::cli::Global;
use crate::disk::is_definition;
use crate::draft::{ExportAt, export_at};
use crate::files::FileArgs;
use crate::kinds::{KindInfo, Kinds};
use crate::outcome::{Failure, Outcome};
use crate::output::RulesFormat;
use crate::terminal::Terminal;

/// Derive rules from what a provider has already written
///
/// Reads the PublishedResources of kcp's api-syncagent (syncagent.kcp.io) or of KDP's Servlet (services.kdp.k8c.io), and
/// prints a DependencyRule for each that has related resources: while an object refers to a related one, that is not
/// deleted. Definitions of the kinds among the files tell their plurals, versions and scopes; APIExports among them tell
/// whose an identityHash is. What can't be said in a rule is reported on standard error, and in the JSON; then the exit
/// code is 1. docs/import.md explains what becomes what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to derive them from
    #[arg(value_enum, value_name = "FROM")]
    from: From,

    #[command(flatten)]
    files: FileArgs,

    /// Where the rules are to be applied
    #[arg(long, value_enum, value_name = "SIDE", default_value_t)]
    side: Side,

    /// APIExport that serves the published kinds, and its workspace, as in certs.example.com=root:providers:certs
    #[arg(long, value_name = "NAME=PATH", value_parser = export_at, required_if_eq("side", "kcp"))]
    export: Option<ExportAt>,

    /// What happens when a copy is deleted: the agent deletes copies itself, and makes them anew
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    copies: Copies,

    /// Tell where the copy of an object of a workspace is, as in 2kmlo5t0xpzp:web/shop; an api-syncagent is taken for one
    /// of version 0.3 or later
    #[arg(long, value_name = "CLUSTER:NAMESPACE/NAME", value_parser = original)]
    copy_of: Option<Original>,

    /// How to print it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: RulesFormat,
}

/// What rules are derived from.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    /// The PublishedResources of a sync agent
    PublishedResource,
}

/// `onDelete` of a rule about copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Copies {
    /// Refused, to the agent as well, which may then never get any further
    Deny,
    /// Whoever deletes is warned
    #[default]
    Warn,
    /// It is recorded
    Audit,
}

/// An object of a workspace, as `--copy-of` names it.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    cluster: LogicalCluster,
    namespace: Option<Namespace>,
    name: String,
}

pub(crate) async fn run(args: Args, _: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let From::PublishedResource = args.from;
    if args.files.is_empty() {
        return Err(Failure::new("no file is named").hint("name files that hold PublishedResources with -f"));
    }
    let documents = args.files.read(terminal)?;
    let mut kinds = Kinds::default();
    for document in documents.iter().filter(|document| is_definition(&document.value)) {
        KindInfo::of_definition(&document.value).into_iter().for_each(|kind| kinds.learn(kind));
    }
    let published: Vec<_> = documents.iter().filter_map(Published::of).collect();
    if published.is_empty() {
        return Err(Failure::new("there is no PublishedResource in what was given")
            .hint("name files that hold some with -f: of syncagent.kcp.io/v1alpha1 or services.kdp.k8c.io/v1alpha1"));
    }
    let exports = Exports::new(args.export, documents.iter().map(|document| &*document.value));
    let import = Import { side: args.side, kinds: &kinds, exports: &exports, copies: args.copies.into() };
    let mut imported = Imported::default();
    for published in &published {
        import.add(published, &mut imported);
        if let Some(original) = &args.copy_of {
            import.locate(published, original, &mut imported);
        }
    }
    print::imported(&imported, args.output, terminal)?;
    Ok(if imported.report.is_complete() { Outcome::Well } else { Outcome::Finding })
}

impl std::convert::From<Copies> for OnDelete {
    fn from(copies: Copies) -> Self {
        match copies {
            Copies::Deny => Self::Deny,
            Copies::Warn => Self::Warn,
            Copies::Audit => Self::Audit,
        }
    }
}

fn original(text: &str) -> Result<Original, String> {
    let wrong = "write CLUSTER:NAMESPACE/NAME, or CLUSTER:NAME for what is in no namespace";
    let (cluster, object) = text.split_once(':').ok_or(wrong)?;
    let (namespace, name) = match object.split_once('/') {
        Some((namespace, name)) => (Some(Namespace::parse(namespace).map_err(|why| why.to_string())?), name),
        None => (None, object),
    };
    if name.is_empty() {
        return Err(wrong.to_owned());
    }
    Ok(Original {
        cluster: LogicalCluster::parse(cluster).map_err(|why| why.to_string())?,
        namespace,
        name: name.to_owned(),
    })
}
