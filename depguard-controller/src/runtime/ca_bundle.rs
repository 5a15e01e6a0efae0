//! Certificates by which API servers verify the webhook, from a file that may change.

use std::path::PathBuf;
use std::sync::Arc;

use depguard_kcp::{FileError, Files, Reload, WatchedFile};

/// Maximum size of a bundle, in bytes: the bundle goes into every configuration, which etcd limits to 1.5 MiB.
const MAX_CA_BUNDLE: usize = 256 << 10;

/// Certificates as PEM, reread when their file changes.
pub(crate) type CaBundle = WatchedFile<Arc<[u8]>, CaBundleError>;

/// Reason why a CA bundle can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaBundleError {
    /// The file can't be read.
    #[error("the CA bundle can't be used: {0}")]
    File(#[from] FileError),
    /// The file holds something else than certificates.
    #[error("the CA bundle `{}` can't be used: {why}", file.display())]
    Unusable {
        /// Path of the file.
        file: PathBuf,
        /// Problem with the file, and the remedy.
        why: &'static str,
    },
}

/// Reads the file.
pub(crate) async fn open(file: PathBuf, reload: Reload) -> Result<CaBundle, CaBundleError> {
    let files = Files { what: "CA bundle", paths: [file.clone()], longest: MAX_CA_BUNDLE };
    WatchedFile::open(files, reload, move |[content]| match check(content) {
        Ok(()) => Ok(content.as_slice().into()),
        Err(why) => Err(CaBundleError::Unusable { file: file.clone(), why }),
    })
    .await
}

fn check(content: &[u8]) -> Result<(), &'static str> {
    let text = str::from_utf8(content).map_err(|_| "it is not PEM")?;
    if text.contains("PRIVATE KEY-----") {
        return Err("it holds a private key, which would be published: give a file with certificates only");
    }
    let begun = text.matches("-----BEGIN CERTIFICATE-----").count();
    if begun == 0 {
        return Err("it holds no certificate (`-----BEGIN CERTIFICATE-----`)");
    }
    if begun != text.matches("-----END CERTIFICATE-----").count() {
        return Err("a certificate in it is cut off");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_would_not_do_in_a_configuration_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let open = async || open(path.clone(), Reload::default()).await;
        let pem = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
        for (broken, said) in [
            ("", "it holds no certificate"),
            ("-----BEGIN CERTIFICATE-----\nQQ", "a certificate in it is cut off"),
            (&format!("{pem}{}", " ".repeat(300 << 10)), "is larger than 256 KiB"),
            (&format!("{pem}-----BEGIN EC PRIVATE KEY-----"), "it holds a private key"),
        ] {
            std::fs::write(&path, broken).unwrap();
            let error = open().await.unwrap_err().to_string();
            assert!(error.starts_with("the CA bundle ") && error.contains(said), "{error}");
        }
        std::fs::write(&path, pem).unwrap();
        assert_eq!(**open().await.unwrap().current(), *pem.as_bytes());
    }
}
