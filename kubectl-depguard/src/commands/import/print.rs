//! Output of an import.

use depguard_core::api::FieldRef;

use super::derive::{CopyOf, ImportResult, label_selector};
use super::report::{Effect, Finding};
use crate::cluster::kinds::resource_name;
use crate::io::exit::Failure;
use crate::io::output::{RulesFormat, one_line, yaml};
use crate::io::report::print_json;
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};

/// Prints the rules, and on standard error the findings.
pub(super) fn imported(imported: &ImportResult, format: RulesFormat, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        RulesFormat::Json => print_json(imported, terminal)?,
        RulesFormat::Yaml => {
            let mut text = String::new();
            for rule in &imported.rules {
                text.push_str(&format!("---\n{}", yaml(rule)?));
            }
            terminal.out().write_all(text.as_bytes())?;
        }
        RulesFormat::Table => table(imported).print(terminal)?,
    }
    for finding in &imported.report.findings {
        let text = line(finding, terminal);
        writeln!(terminal.err(), "{text}")?;
    }
    for copy in &imported.copies {
        terminal.note(&located(copy))?;
    }
    Ok(())
}

fn table(imported: &ImportResult) -> Table {
    let mut table = Table::new(["RULE", "DEPENDENT", "FIELD", "TARGET", "NAMESPACE", "ON DELETE"]);
    for rule in &imported.rules {
        let dependent = &rule.spec.dependent;
        for dependency in &rule.spec.dependencies {
            let field = dependency.field_ref.as_ref();
            let namespace = field.and_then(|field| field.namespace_path.as_deref().or(field.namespace.as_deref()));
            // A rule without a path holds the name itself.
            let read = |field: &FieldRef| field.path.clone().or(field.value.as_ref().map(|name| format!("<{name}>")));
            let path = field.map_or(Some("<labels>".to_owned()), read).unwrap_or_default();
            table.push([
                rule.metadata.name.clone(),
                resource_name(&dependent.resource, &dependent.group),
                path,
                resource_name(&dependency.resource, &dependency.group),
                namespace.unwrap_or("<own>").to_owned(),
                format!("{:?}", dependency.on_delete.unwrap_or_default()),
            ]);
        }
    }
    table
}

/// Formats a finding: `missing: pr.yaml:1: publish-certs: spec.related[0]: why`.
fn line(finding: &Finding, terminal: &Terminal) -> String {
    let Finding { effect, published_resource, file, line, field, message } = finding;
    let tone = match effect {
        Effect::Missing | Effect::NotEnforceable => Tone::Bad,
        Effect::Wider | Effect::Weaker | Effect::Assumed => Tone::Warning,
        Effect::Nothing => Tone::Faint,
    };
    let word = terminal.paint(tone, &format!("{}:", effect.word()));
    format!("{word} {}", one_line(&format!("{file}:{line}: {published_resource}: {field}: {message}")))
}

fn located(copy: &CopyOf) -> String {
    let CopyOf { published_resource, resource, namespace, name, labels } = copy;
    let place = namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    format!(
        "{published_resource}: a new copy would be {resource} {place}; find an existing copy by \
         `kubectl get {resource} -A -l {}`",
        label_selector(labels)
    )
}
