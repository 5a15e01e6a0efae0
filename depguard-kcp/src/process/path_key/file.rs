//! File that holds a key.

use std::path::PathBuf;

use super::PathKey;
use crate::process::file_watch::{FileError, Files, WatchedFile};
use crate::process::reload_metrics::Reload;

/// Maximum length of the file, in bytes.
const MAX_FILE: usize = 4 << 10;

/// Reason why a file holds no key. The error never repeats the file's content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathKeyError {
    /// The file can't be read.
    #[error("the path key can't be used: {0}")]
    File(#[from] FileError),
    /// The file holds no usable key.
    #[error("the path key `{}` can't be used: {why}", file.display())]
    Unusable {
        /// Path of the file.
        file: PathBuf,
        /// Error in the file, and the command that makes a key.
        why: &'static str,
    },
}

impl PathKey {
    /// Reads the key from a file that may change.
    pub async fn open(file: PathBuf, reload: Reload) -> Result<WatchedFile<Self, PathKeyError>, PathKeyError> {
        let files = Files { what: "path key", paths: [file.clone()], longest: MAX_FILE };
        WatchedFile::open(files, reload, move |[content]| {
            let content = str::from_utf8(content).map_err(|_| "it is not text");
            let key = content.and_then(PathKey::parse);
            key.map_err(|why| PathKeyError::Unusable { file: file.clone(), why })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_read_from_its_file_or_it_is_said_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let open = async || PathKey::open(path.clone(), Reload::default()).await;
        let error = open().await.unwrap_err().to_string();
        assert!(error.starts_with("the path key can't be used: cannot read `"), "{error}");
        for (broken, said) in [
            (&b"short"[..], "one of its lines is shorter than 32 characters"),
            (&[0xff; 40], "it is not text"),
            (&[b'x'; 5000], "is larger than 4 KiB"),
        ] {
            std::fs::write(&path, broken).unwrap();
            let error = open().await.unwrap_err().to_string();
            assert!(error.starts_with("the path key ") && error.contains(said), "{error}");
        }
        let key = "0123456789abcdef0123456789abcdef";
        std::fs::write(&path, key).unwrap();
        assert_eq!(open().await.unwrap().current().suffix(None), PathKey::parse(key).unwrap().suffix(None));
    }
}
