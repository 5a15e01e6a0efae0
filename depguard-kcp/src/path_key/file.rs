//! The file that holds a key.

use std::path::PathBuf;

use super::PathKey;
use crate::followed::{FileError, Files, Followed};
use crate::reloads::Reload;

/// The largest file that is read, in bytes.
const LONGEST: usize = 4 << 10;

/// Why a file holds no key. It never repeats what is in there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathKeyError {
    /// The file can't be read.
    #[error("the path key can't be used: {0}")]
    File(#[from] FileError),
    /// The file holds no key that is good enough.
    #[error("the path key `{}` can't be used: {why}", file.display())]
    Unusable {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it, and how to make one.
        why: &'static str,
    },
}

impl PathKey {
    /// Reads the key of a file that may change.
    pub async fn open(file: PathBuf, reload: Reload) -> Result<Followed<Self, PathKeyError>, PathKeyError> {
        let files = Files { what: "path key", paths: [file.clone()], longest: LONGEST };
        Followed::open(files, reload, move |[content]| {
            let content = str::from_utf8(content).map_err(|_| "it is no text");
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
            (&b"short"[..], "a line in it is shorter than 32 characters"),
            (&[0xff; 40], "it is no text"),
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
