//! Man pages: those of clap, with examples, exit codes, the environment and the other pages in sections of their own.

use std::collections::BTreeMap;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Program;

/// Paragraph of a command's description that says its exit codes.
const EXIT_CODE: &str = "Exit code: ";
/// Beginnings of the lines that define the apostrophe, once in a page.
const PREAMBLE: [&str; 2] = [".ie \\n(.g", ".el .ds Aq"];
/// Line before the examples in the help.
const EXAMPLES: &str = "Examples:";

/// Writes a page for each command of the programs, by its file name.
pub(super) fn pages(programs: &[Program]) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let names: Vec<_> = programs.iter().map(|program| program.name).collect();
    for program in programs {
        write(program, &program.command, &names, &mut pages);
    }
    pages
}

/// Writes the page of a command, and the pages of its subcommands.
fn write(program: &Program, command: &Command, programs: &[&str], pages: &mut BTreeMap<String, String>) {
    let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    let mut others: Vec<_> = below.iter().map(|below| page_name(below)).collect();
    let own = page_name(command);
    let above = own.rsplit_once('-').map(|(above, _)| above.to_owned()).filter(|_| own != program.name);
    others.extend(above);
    others.extend(programs.iter().map(|&name| name.to_owned()));
    others.retain(|other| *other != own);
    others.sort();
    others.dedup();
    pages.insert(format!("{own}.1"), page(program, command, &others));
    below.into_iter().for_each(|below| write(program, below, programs, pages));
}

fn page_name(command: &Command) -> String {
    Man::new(command.clone()).get_filename().trim_end_matches(".1").to_owned()
}

fn page(program: &Program, command: &Command, others: &[String]) -> String {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let (exit, about): (Vec<_>, Vec<_>) = about.split("\n\n").partition(|paragraph| paragraph.starts_with(EXIT_CODE));
    // Of an argument that the short help leaves out, clap_mangen prints no help.
    let command = command.clone().mut_args(|argument| argument.hide_short_help(false));
    let man = Man::new(command.clone().long_about(about.join("\n\n")));
    let mut page = section(|text| man.render_title(text));
    page.push_str(&body(|text| man.render_name_section(text)));
    page.push_str(&body(|text| man.render_synopsis_section(text)));
    page.push_str(&body(|text| man.render_description_section(text)));
    page.push_str(&body(|text| man.render_options_section(text)));
    if command.get_subcommands().next().is_some() {
        page.push_str(&body(|text| man.render_subcommands_section(text)));
    }
    let mut own = Roff::new();
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        own.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.trim_start_matches(EXAMPLES).trim_matches('\n').lines() {
            own.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        own.control("fi", []);
    }
    own.control("SH", ["EXIT STATUS"]);
    match exit.first() {
        Some(own_codes) => {
            let sentence = own_codes.trim_start_matches(EXIT_CODE).replace('\n', " ");
            own.text([roman(sentence)]);
        }
        None => entries(&mut own, program.exit_codes),
    }
    own.control("SH", ["ENVIRONMENT"]);
    entries(&mut own, program.environment);
    own.control("SH", ["SEE ALSO"]);
    let mut also = Vec::new();
    for (index, other) in others.iter().enumerate() {
        also.extend([roman(if index == 0 { "" } else { ", " }), bold(other), roman("(1)")]);
    }
    own.text(also);
    page + &body(|text| own.to_writer(text))
}

fn section(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut text = Vec::new();
    render(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Returns a section without the lines that begin a page.
fn body(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    section(render).split_inclusive('\n').filter(|line| !PREAMBLE.iter().any(|begin| line.starts_with(begin))).collect()
}

fn entries(page: &mut Roff, entries: &[(&str, &str)]) {
    for (term, meaning) in entries {
        page.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}
