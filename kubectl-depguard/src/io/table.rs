//! Tables with headings, aligned as kubectl's, and fitted to the width of a terminal.

use crate::io::exit::Failure;
use crate::io::terminal::{Terminal, Tone, one_line};

/// Spaces between columns.
const GAP: &str = "   ";
/// Width below which a column is not made narrower: shorter lines are hard to read.
const MIN_FITTED_WIDTH: usize = 12;

/// Returns the meaning of a cell's text, `None` for a plain cell.
type ToneOf = fn(&str) -> Option<Tone>;

/// Table with headings.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    heading: &'static str,
    tone: ToneOf,
}

impl Table {
    /// Builds a table with these headings, in capital letters.
    pub(crate) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        let columns = headings.into_iter().map(|heading| Column { heading, tone: |_| None });
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Paints the cells of the columns with these headings by their meaning.
    pub(crate) fn painted(mut self, headings: &[&str], tone: ToneOf) -> Self {
        self.columns
            .iter_mut()
            .filter(|column| headings.contains(&column.heading))
            .for_each(|column| column.tone = tone);
        self
    }

    /// Adds a row, with a cell for each heading.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table as the result of the command.
    pub(crate) fn print(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        let text = self.render(terminal);
        Ok(terminal.out().write_all(text.as_bytes())?)
    }

    /// Returns the table as text, with a line feed at its end. The last cell of a line is not padded. Cells that are too
    /// wide for the terminal go on in further lines, so that nothing is cut.
    pub(crate) fn render(&self, terminal: &Terminal) -> String {
        let headings: Vec<_> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let headings = terminal.has_headings().then_some(&headings);
        let mut widths: Vec<_> = (0..self.columns.len())
            .map(|column| {
                let cells = headings.into_iter().chain(&self.rows).filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
            })
            .collect();
        if let Some(limit) = terminal.width() {
            fit(&mut widths, limit);
        }
        let mut text = String::new();
        if let Some(headings) = headings {
            push_row(&mut text, headings, &widths, |_, line| line.to_owned());
        }
        for row in &self.rows {
            push_row(&mut text, row, &widths, |column, line| {
                let tone = self.columns.get(column).zip(row.get(column)).and_then(|(column, cell)| (column.tone)(cell));
                tone.map_or_else(|| line.to_owned(), |tone| terminal.paint(tone, line))
            });
        }
        text
    }
}

/// Adds a row to the text, in as many lines as its highest cell has.
fn push_row(text: &mut String, row: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) {
    let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| lines(cell, *width)).collect();
    for number in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
        // Spaces are owed until another cell follows, so that no line ends with some.
        let mut owed = 0;
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let line = cell.get(number).copied().unwrap_or_default();
            if !line.is_empty() {
                text.push_str(&" ".repeat(owed));
                text.push_str(&paint(column, line));
                owed = 0;
            }
            owed += width.saturating_sub(line.chars().count()) + GAP.len();
        }
        text.push('\n');
    }
}

/// Makes the widest columns narrower, until a line has at most `limit` characters or all columns are narrow.
fn fit(widths: &mut [usize], limit: usize) {
    loop {
        let taken = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        let excess = taken.saturating_sub(limit);
        let Some(widest) = widths.iter().copied().max() else { return };
        if excess == 0 || widest <= MIN_FITTED_WIDTH {
            return;
        }
        // All of the widest columns shrink together, down to the next width.
        let next =
            widths.iter().copied().filter(|width| *width < widest).max().unwrap_or_default().max(MIN_FITTED_WIDTH);
        let count = widths.iter().filter(|width| **width == widest).count();
        let fitted = next.max(widest.saturating_sub(excess.div_ceil(count)));
        widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width = fitted);
    }
}

/// Splits a text into lines of at most `width` characters: at a space, else after a punctuation mark, else anywhere.
fn lines(text: &str, width: usize) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    // A width of 0 has no text to split.
    while let Some((end, _)) = rest.char_indices().nth(width).filter(|_| width > 0) {
        let (head, tail) = rest.split_at(end);
        let space = if tail.starts_with(' ') { Some(end) } else { head.rfind(' ') };
        let after_mark = head.rfind(['/', '.', ',', ':', '|']).map(|mark| mark.saturating_add(1));
        let end = space.filter(|at| *at > 0).or(after_mark).unwrap_or(end);
        let (line, further) = rest.split_at(end);
        lines.push(line.trim_end());
        rest = further.trim_start();
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(width: Option<usize>) -> Terminal {
        let (mut terminal, _) = Terminal::captured("");
        terminal.set_width(width);
        terminal
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["RULE", "FIELD"]);
        table.push(["virtualmachines".to_owned(), "spec\u{1b}[31m.a".to_owned()]);
        table.push(["v".to_owned(), String::new()]);
        let mut terminal = captured(None);
        assert_eq!(table.render(&terminal), "RULE              FIELD\nvirtualmachines   spec [31m.a\nv\n");
        terminal.set_headings(false);
        assert_eq!(table.render(&terminal), "virtualmachines   spec [31m.a\nv\n");
    }

    #[test]
    fn a_cell_that_is_too_wide_goes_on_below() {
        let mut table = Table::new(["RULE", "MESSAGE"]);
        table.push(["vms".to_owned(), "the field spec.template.spec.networks[*].name is unknown".to_owned()]);
        table.push(["b".to_owned(), "no".to_owned()]);
        let expected = "RULE   MESSAGE\n\
                        vms    the field\n       spec.template.spec.\n       networks[*].name is\n       unknown\n\
                        b      no\n";
        assert_eq!(table.render(&captured(Some(26))), expected);
    }

    #[test]
    fn a_cell_has_the_colour_of_its_meaning_and_the_line_its_width() {
        let mut table =
            Table::new(["RULE", "READY", "AGE"]).painted(&["READY"], |cell| (cell == "False").then_some(Tone::Bad));
        table.push(["False", "False", "1s"].map(str::to_owned));
        table.push(["b", "True", "2s"].map(str::to_owned));
        let mut terminal = captured(None);
        terminal.set_colour(Some(true));
        let text = table.render(&terminal);
        assert_eq!(text, "RULE    READY   AGE\nFalse   \u{1b}[31mFalse\u{1b}[0m   1s\nb       True    2s\n");
    }

    proptest! {
        #[test]
        fn nothing_but_spaces_is_lost_and_no_line_is_too_wide(
            cells in prop::collection::vec(prop::collection::vec("[a-z/. ]{0,60}", 3), 1..4), limit in 44_usize..160,
        ) {
            let mut table = Table::new(["A", "B", "C"]);
            cells.iter().for_each(|row| table.push(row.clone()));
            let text = table.render(&captured(Some(limit)));
            for line in text.lines() {
                prop_assert!(line.chars().count() <= limit, "{line:?}");
            }
            let mut sorted: Vec<_> = text.chars().filter(|c| c.is_ascii_lowercase() || "/.".contains(*c)).collect();
            let mut given: Vec<_> = cells.concat().concat().chars().filter(|c| *c != ' ').collect();
            sorted.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(sorted, given);
        }
    }
}
