//! Secrets as files, exchanged as a kubelet exchanges them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use depguard_e2e::{Outcome, Stop};
use serde_json::Value;

use super::Site;

/// One mounted Secret.
pub(super) struct Mount {
    volume: Value,
    place: String,
    folder: PathBuf,
    held: BTreeMap<String, Vec<u8>>,
    swaps: u32,
}

impl Mount {
    /// Returns the Secret volumes that a pod's first container mounts, below `folder`. (`Pod` handles the volume with
    /// the token.)
    pub(super) fn all(pod: &Value, folder: &Path) -> Vec<Mount> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let volumes = list(&pod["spec"]["volumes"]);
        let mounts = list(&pod["spec"]["containers"][0]["volumeMounts"]);
        let mount = |mount: &Value| {
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"])?;
            let name = volume["secret"].is_object().then_some(volume["name"].as_str()?)?;
            let place = mount["mountPath"].as_str()?.to_owned();
            Some(Mount { volume: volume.clone(), place, folder: folder.join(name), held: BTreeMap::new(), swaps: 0 })
        };
        mounts.iter().filter_map(mount).collect()
    }

    /// Translates a flag: the volume's path in the pod becomes the path on this machine.
    pub(super) fn translate(&self, flag: &str) -> String {
        flag.replace(&format!("={}", self.place), &format!("={}", self.folder.display()))
    }

    /// Writes the present content of the Secret. All files change at once, because `..data` is a link that is replaced.
    pub(super) async fn refresh(&mut self, site: &Site) -> Outcome {
        let secret = &self.volume["secret"];
        let name = secret["secretName"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/secrets/{name}", site.namespace);
        let data = site.api.get(&path).await?.ok()?["data"].take();
        let mut files = BTreeMap::new();
        for item in secret["items"].as_array().into_iter().flatten() {
            let key = item["key"].as_str().unwrap_or_default();
            let encoded = data[key].as_str().ok_or_else(|| Stop::Failed(format!("the Secret {name} has no {key}")))?;
            files.insert(item["path"].as_str().unwrap_or_default().to_owned(), BASE64_STANDARD.decode(encoded)?);
        }
        if files == self.held {
            return Ok(());
        }
        self.swaps += 1;
        let content = self.folder.join(format!("..{}", self.swaps));
        std::fs::create_dir_all(&content)?;
        for (name, bytes) in &files {
            std::fs::write(content.join(name), bytes)?;
            let link = self.folder.join(name);
            if !link.is_symlink() {
                std::os::unix::fs::symlink(format!("..data/{name}"), link)?;
            }
        }
        let fresh = self.folder.join("..data_tmp");
        std::os::unix::fs::symlink(format!("..{}", self.swaps), &fresh)?;
        std::fs::rename(fresh, self.folder.join("..data"))?;
        self.held = files;
        Ok(())
    }
}
