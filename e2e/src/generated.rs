//! Files that a test generates.

use std::path::Path;

/// Compares a file with its generated text. With `DEPGUARD_WRITE=1` the text is written first; `command` is the test
/// that does so.
///
/// Returns an error that names the file and the command if the file is out of date, or can't be written.
pub fn compare(file: &Path, text: &str, command: &str) -> Result<(), String> {
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        std::fs::write(file, text).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    if std::fs::read_to_string(file).is_ok_and(|written| written == text) {
        return Ok(());
    }
    Err(format!("{} is out of date: `DEPGUARD_WRITE=1 {command}` writes it", file.display()))
}
