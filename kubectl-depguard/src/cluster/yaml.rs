//! YAML as people and API servers write it.
//!
//! A List of an API server has as many nodes as it has objects, so that only the limit on a file's size bounds it. The
//! expansion of aliases has a limit of its own, since a few lines of them would fill the memory.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned};
use serde_saphyr::{Error, Options};

/// Error in a text that should be YAML, in words for its author.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct YamlError {
    /// Line of the text, from 1; `None` if it is unknown.
    pub(crate) line: Option<usize>,
    message: String,
}

/// Reads one document.
pub(crate) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, YamlError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|why| YamlError::new(&why))
}

/// Reads one document by a function that is given the parser.
pub(crate) fn read_with<'t, T>(
    text: &'t str,
    read: impl FnOnce(serde_saphyr::Deserializer<'t, '_>) -> Result<T, Error>,
) -> Result<T, YamlError> {
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), read).map_err(|why| YamlError::new(&why))
}

/// Reads all documents of a text.
pub(crate) fn read_all<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|why| YamlError::new(&why))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        with_snippet: false,
    }
}

impl YamlError {
    fn new(why: &Error) -> Self {
        let location = why.location();
        let mut cause = why.without_snippet();
        while let Error::AliasError { error, .. } = cause {
            cause = error;
        }
        let message = match cause {
            Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate field `{key}`"),
            Error::DuplicateMappingKey { .. } => "duplicate field".to_owned(),
            Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::AliasReplayCounterOverflow { .. }
            | Error::Budget { .. } => "its aliases expand to too much".to_owned(),
            other => {
                let text = other.to_string();
                let text = text.lines().next().unwrap_or_default();
                // The caller names the line already: the line of the file, not the one counted from the beginning of
                // the document.
                text.split(" at line ").next().unwrap_or_default().to_owned()
            }
        };
        Self { line: location.and_then(|at| usize::try_from(at.line()).ok()), message }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn mistake(text: &str) -> YamlError {
        read::<Value>(text).unwrap_err()
    }

    #[test]
    fn a_list_of_any_length_is_read_and_an_alias_bomb_is_not() {
        let list = format!("[{}]", "0, ".repeat(260_000));
        assert_eq!(read::<Vec<u8>>(&list).unwrap().len(), 260_000);

        let bomb: String = (1..9)
            .map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10)))
            .collect();
        let bomb = mistake(&format!("a0: &a0 [x]\n{bomb}"));
        assert!(bomb.to_string().contains("aliases"), "{bomb:?}");
    }

    #[test]
    fn a_mistake_is_told_without_words_of_the_parser_and_with_one_line() {
        let twice = mistake("a: 1\nb: 2\na: 3\n");
        assert_eq!((twice.line, twice.to_string().as_str()), (Some(3), "duplicate field `a`"));
        let open = mistake("a: 1\nb: [\n");
        assert!(open.line.is_some() && !open.to_string().contains(" line "), "{open:?}");
        let deep = mistake(&"[".repeat(5_000));
        assert!(deep.to_string().contains("limit"), "{deep:?}");
    }
}
