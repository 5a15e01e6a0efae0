//! Streams of a command: a process's own streams, or a test's buffers.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};

/// Streams that a command reads and writes.
pub struct Terminal {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    stdin: Box<dyn Read + Send>,
    out_is_terminal: bool,
    err_is_terminal: bool,
    stdin_is_terminal: bool,
    colour: bool,
    /// Columns of the terminal that standard output is, if any.
    width: Option<usize>,
    /// True if tables have headings.
    headings: bool,
    /// A test's buffer of standard error; `None` if that is the process's own.
    err_buffer: Option<Buffer>,
}

/// Output that a command wrote to a test's buffers.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    out: Buffer,
    err: Buffer,
}

#[derive(Debug, Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

/// Meaning of a text, shown as a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Faint,
    Strong,
}

impl Terminal {
    /// Opens the process's own streams. Colours are on if standard output is a terminal and `NO_COLOR` is not set.
    pub fn stdio() -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            stdin: Box::new(io::stdin()),
            out_is_terminal,
            err_is_terminal: io::stderr().is_terminal(),
            stdin_is_terminal: io::stdin().is_terminal(),
            colour: out_is_terminal && !no_colour,
            width: Term::stdout().size_checked().map(|(_, columns)| columns.into()),
            headings: true,
            err_buffer: None,
        }
    }

    /// Opens buffers, with `stdin` as the input; they don't count as a terminal.
    pub fn captured(stdin: impl Into<Vec<u8>>) -> (Self, Captured) {
        let captured = Captured::default();
        let terminal = Self {
            out: Box::new(captured.out.clone()),
            err: Box::new(captured.err.clone()),
            stdin: Box::new(io::Cursor::new(stdin.into())),
            out_is_terminal: false,
            err_is_terminal: false,
            stdin_is_terminal: false,
            colour: false,
            width: None,
            headings: true,
            err_buffer: Some(captured.err.clone()),
        };
        (terminal, captured)
    }

    /// Returns the stream for the result of the command.
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut *self.out
    }

    /// Returns the stream for everything besides the result.
    pub(crate) fn err(&mut self) -> &mut dyn Write {
        &mut *self.err
    }

    /// Returns another handle on standard error, for tasks beside the command.
    pub(crate) fn err_handle(&self) -> Box<dyn Write + Send> {
        match &self.err_buffer {
            Some(buffer) => Box::new(buffer.clone()),
            None => Box::new(io::stderr()),
        }
    }

    /// Prints a note on a line of standard error.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        let note = self.paint(Tone::Warning, "note:");
        writeln!(self.err, "{note} {}", one_line(text))
    }

    /// Asks on standard error whether to go on. Only `y` or `yes` is a yes.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<bool> {
        write!(self.err, "{} [y/N] ", one_line(question))?;
        self.err.flush()?;
        let (mut answer, mut byte) = (Vec::new(), [0]);
        // 16 bytes are longer than either valid answer.
        while answer.len() < 16 && self.stdin.read(&mut byte)? == 1 && byte != *b"\n" {
            answer.extend(byte);
        }
        let answer = String::from_utf8_lossy(&answer).trim().to_lowercase();
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }

    pub(crate) fn stdin(&mut self) -> &mut dyn Read {
        &mut *self.stdin
    }

    /// Returns true if a person can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        self.stdin_is_terminal && self.err_is_terminal
    }

    pub(crate) fn set_colour(&mut self, always: Option<bool>) {
        self.colour = always.unwrap_or(self.colour);
    }

    pub(crate) fn set_headings(&mut self, headings: bool) {
        self.headings = headings;
    }

    /// Returns true if tables have headings.
    pub(crate) fn has_headings(&self) -> bool {
        self.headings
    }

    #[cfg(test)]
    pub(crate) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
    }

    /// Returns true if the result has colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Returns the number of characters of a line; `None` if standard output is no terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Paints a text in the colour of its tone, if colours are on.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Good => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Tone::Warning => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Tone::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())),
            Tone::Faint => Style::new().dimmed(),
            Tone::Strong => Style::new().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// Shows the progress of a long operation on standard error, if that is a terminal. The bar appears after a moment,
    /// and goes away when it is dropped or cleared.
    pub(crate) fn progress(&self, what: &str) -> ProgressBar {
        if !self.err_is_terminal {
            return ProgressBar::hidden();
        }
        let template = ProgressStyle::with_template("{spinner} {msg}: {human_pos}");
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        match template {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out_is_terminal
    }
}

impl Captured {
    /// Returns the text that went to standard output.
    pub fn out(&self) -> String {
        self.out.text()
    }

    /// Returns the text that went to standard error.
    pub fn err(&self) -> String {
        self.err.text()
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a text as one line without control characters, which a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (typed, yes) in [
            ("y\n", true),
            ("YES \r\n", true),
            ("y", true),
            ("", false),
            ("\n", false),
            ("no\n", false),
            ("n\ny\n", false),
            ("yesterday\n", false),
            (&"y".repeat(1000), false),
        ] {
            let (mut terminal, captured) = Terminal::captured(typed);
            assert_eq!(terminal.ask("Delete\u{1b}[2J?").unwrap(), yes, "{typed}");
            assert_eq!(captured.err(), "Delete [2J? [y/N] ");
        }
    }
}
