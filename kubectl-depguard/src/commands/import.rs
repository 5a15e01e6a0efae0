//! `kubectl depguard import`: derives rules from the PublishedResources that a provider has already written.

mod derive;
mod fields;
mod path;
mod print;
mod report;
mod rewriting;
mod side;
mod written;

use clap::ValueEnum;
use depguard_core::LogicalCluster;
use depguard_core::api::OnDelete;
use depguard_core::model::Namespace;
use serde_json::Value;

use self::derive::Import;
pub(crate) use self::derive::ImportResult;
use self::side::{Exports, Side};
use self::written::{Published, is_published_resource};
use crate::cluster::documents::{Document, is_definition, text};
use crate::cluster::files::{FileArgs, Needed};
use crate::cluster::kinds::{KindInfo, Kinds};
use crate::cluster::source::READS_FILES;
use crate::engine::rule_draft::{ExportAt, export_at};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::RulesFormat;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Derive rules from a provider's PublishedResources
///
/// Reads the PublishedResources of kcp's api-syncagent (syncagent.kcp.io) or of KDP's Servlet (services.kdp.k8c.io),
/// and prints a DependencyRule for each one with related resources. The rule protects a related object while another
/// object refers to it. Definitions of kinds among the files give the plurals, versions and scopes; APIExports among
/// the files resolve each identityHash. If a rule can't express a field, the command reports the field on standard
/// error and in the JSON output, and ends with exit code 1. docs/import.md explains the translation.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kind of object to derive the rules from
    #[arg(value_enum, value_name = "FROM")]
    from: From,

    #[command(flatten)]
    files: FileArgs,

    /// Side to which you will apply the rules
    #[arg(long, value_enum, value_name = "SIDE", default_value_t)]
    side: Side,

    /// APIExport that serves the published kinds, and its workspace, as in certs.example.com=root:providers:certs
    #[arg(long, value_name = "NAME=PATH", value_parser = export_at, required_if_eq("side", "kcp"))]
    export: Option<ExportAt>,

    /// Action when a copy is deleted; the agent itself deletes copies, and creates them again
    #[arg(long, value_enum, value_name = "ACTION", default_value_t)]
    copies: Copies,

    /// Print the place of the copy of this object, as in 2kmlo5t0xpzp:web/shop; assumes api-syncagent 0.3 or later
    #[arg(long, value_name = "CLUSTER:NAMESPACE/NAME", value_parser = original)]
    copy_of: Option<Original>,

    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: RulesFormat,
}

/// Kind of object that rules are derived from.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    /// PublishedResources of a sync agent
    PublishedResource,
}

/// `onDelete` of a rule about copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Copies {
    /// Refuse the deletion; that may block the agent, too, for good
    Deny,
    /// Warn the user who deletes
    #[default]
    Warn,
    /// Record the deletion in the audit log
    Audit,
}

/// Object of a workspace, as `--copy-of` names it.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    cluster: LogicalCluster,
    namespace: Option<Namespace>,
    name: String,
}

const PUBLISHED: Needed = Needed {
    is_needed: |object| is_kind_of_import(object) || is_definition(object),
    words: &["PublishedResource", "CustomResourceDefinition", "APIResourceSchema", "APIExport"],
};

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let From::PublishedResource = args.from;
    if args.files.is_empty() {
        return Err(Failure::new("no file is named").hint("name files with PublishedResources with -f"));
    }
    global.refuse_server_flags(READS_FILES)?;
    let (texts, unread) = args.files.needed(PUBLISHED, terminal)?;
    unread.iter().try_for_each(|unread| terminal.note(&format!("could not read {unread}")))?;
    let documents: Vec<Document> = texts.into_iter().map(|text| text.document).collect();
    let mut kinds = Kinds::default();
    for document in documents.iter().filter(|document| is_definition(&document.value)) {
        KindInfo::from_definition(&document.value).into_iter().for_each(|kind| kinds.learn(kind));
    }
    let (mut published, mut imported) = (Vec::new(), ImportResult::default());
    for document in &documents {
        match Published::from_document(document) {
            Some(of_known_agent) => published.push(of_known_agent),
            None if is_published_resource(document) => imported.report.pass_over(document),
            None => {}
        }
    }
    if published.is_empty() {
        return Err(Failure::new("the files contain no PublishedResource").hint(
            "name files with PublishedResources of syncagent.kcp.io/v1alpha1 or services.kdp.k8c.io/v1alpha1 with -f",
        ));
    }
    let exports = Exports::new(args.export, documents.iter().map(|document| &*document.value));
    let import = Import { side: args.side, kinds: &kinds, exports: &exports, copies: args.copies.into() };
    for published in &published {
        import.add(published, &mut imported);
        if let Some(original) = &args.copy_of {
            import.locate(published, original, &mut imported);
        }
    }
    print::imported(&imported, args.output, terminal)?;
    if !unread.is_empty() {
        return Err(Failure::new("incomplete: some files could not be read, so rules may be missing")
            .hint("the notes above name them: correct them"));
    }
    Ok(if imported.report.is_complete() { Outcome::Well } else { Outcome::Finding })
}

fn is_kind_of_import(object: &Value) -> bool {
    matches!(text(object, "kind"), Some("PublishedResource" | "APIExport"))
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
    let wrong = "write CLUSTER:NAMESPACE/NAME, or CLUSTER:NAME for a cluster-scoped object";
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
