//! The certificates by which API servers know the webhook, from a file that may change.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use depguard_kcp::Reload;
use tokio::io::AsyncReadExt;

/// The largest bundle that is taken, in bytes: it goes into every configuration, which etcd limits to 1.5 MiB.
const MAX_LEN: u64 = 256 << 10;

/// A PEM file, read again by its content: a mounted Secret changes by a swap of folders that no watch of the file shows.
#[derive(Debug)]
pub(crate) struct CaBundle {
    path: PathBuf,
    pem: Arc<[u8]>,
    complained: Option<String>,
    reload: Reload,
}

/// Why a CA bundle can't be used.
#[derive(Debug, thiserror::Error)]
#[error("the CA bundle `{}` can't be used: {why}", path.display())]
pub struct CaBundleError {
    path: PathBuf,
    why: String,
}

impl CaBundle {
    /// Reads the file.
    pub(crate) async fn open(path: PathBuf, reload: Reload) -> Result<Self, CaBundleError> {
        match read(&path).await {
            Ok(pem) => Ok(Self { path, pem, complained: None, reload }),
            Err(why) => Err(CaBundleError { path, why }),
        }
    }

    /// The certificates, as PEM.
    pub(crate) fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// Reads the file again. A file that can't be used leaves the last good content in force.
    pub(crate) async fn refresh(&mut self) -> bool {
        match read(&self.path).await {
            Ok(pem) => {
                self.complained = None;
                self.reload.succeeded();
                let changed = *pem != *self.pem;
                self.pem = pem;
                changed
            }
            Err(why) => {
                if self.complained.as_deref() != Some(&why) {
                    tracing::warn!(path = %self.path.display(), "the CA bundle can't be used, keeping the last one: {why}");
                    self.complained = Some(why);
                    self.reload.failed();
                }
                false
            }
        }
    }
}

async fn read(path: &PathBuf) -> Result<Arc<[u8]>, String> {
    let content = async {
        let mut content = Vec::new();
        tokio::fs::File::open(path).await?.take(MAX_LEN + 1).read_to_end(&mut content).await?;
        io::Result::Ok(content)
    };
    let content = content.await.map_err(|error| error.to_string())?;
    check(&content)?;
    Ok(content.into())
}

fn check(content: &[u8]) -> Result<(), String> {
    if content.len() as u64 > MAX_LEN {
        return Err(format!("it is larger than {} KiB", MAX_LEN >> 10));
    }
    let text = str::from_utf8(content).map_err(|_| "it is not PEM".to_owned())?;
    if text.contains("PRIVATE KEY-----") {
        return Err("it holds a private key, which would be published: give a file with certificates only".to_owned());
    }
    let begun = text.matches("-----BEGIN CERTIFICATE-----").count();
    if begun == 0 {
        return Err("it holds no certificate (`-----BEGIN CERTIFICATE-----`)".to_owned());
    }
    if begun != text.matches("-----END CERTIFICATE-----").count() {
        return Err("a certificate in it is cut off".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(content: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n")
    }

    #[tokio::test]
    async fn a_changed_file_is_taken_up_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        assert!(CaBundle::open(path.clone(), Reload::default()).await.is_err());
        std::fs::write(&path, pem("QQ==")).unwrap();
        let mut bundle = CaBundle::open(path.clone(), Reload::default()).await.unwrap();
        assert!(!bundle.refresh().await);

        for broken in ["", "-----BEGIN CERTIFICATE-----\nQQ", &"x".repeat(300 << 10), "-----BEGIN EC PRIVATE KEY-----"]
        {
            std::fs::write(&path, broken).unwrap();
            assert!(!bundle.refresh().await);
            assert_eq!(bundle.pem(), pem("QQ==").as_bytes());
        }
        std::fs::write(&path, pem("Qg==")).unwrap();
        assert!(bundle.refresh().await);
        assert_eq!(bundle.pem(), pem("Qg==").as_bytes());
    }
}
