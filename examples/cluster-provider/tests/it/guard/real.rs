//! Test of the whole play on a real kube-apiserver with openMCP's own CustomResourceDefinitions.

use std::io::Write as _;
use std::path::Path;

use cluster_provider_example::play;
use depguard_e2e::{Outcome, Ring, eventually};
use serde_json::Value;

/// Variable with a folder of definitions by product, which are not in this repository.
const FOLDER: &str = "DEPGUARD_CRDS";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn the_real_definitions_take_all_that_the_provider_writes() {
    // This is printed whether or not the test passes.
    let skipped = |why: &str| writeln!(std::io::stderr(), "not played on a real kube-apiserver: {why}").unwrap();
    let Some(folder) = std::env::var_os(FOLDER) else {
        return skipped(&format!("{FOLDER} names no folder with CustomResourceDefinitions of `openmcp`"));
    };
    let ring = match Ring::cluster().await {
        Ok(ring) => ring.unwrap(),
        Err(why) => return skipped(&why),
    };
    define(&ring, &Path::new(&folder).join("openmcp")).await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    ring.write_kubeconfig("", kubeconfig.path()).unwrap();
    if let Err(why) = play::play(Some(kubeconfig.path()), None).await {
        panic!("{}", why.in_full());
    }
}

async fn define(ring: &Ring, folder: &Path) -> Outcome {
    let admin = ring.admin().await?;
    let mut kinds = Vec::new();
    for file in std::fs::read_dir(folder)? {
        for definition in serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file?.path())?)? {
            admin.post(CRDS, &definition).await?.ok()?;
            kinds.push(definition["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    for kind in kinds {
        eventually(&format!("{kind} is established"), ring.patience(), async || {
            let definition = admin.get(&format!("{CRDS}/{kind}")).await?;
            let is = definition.body["status"]["conditions"].as_array().into_iter().flatten();
            match is.clone().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
                true => Ok(()),
                false => Err(definition.unexpected("Established")),
            }
        })
        .await?;
    }
    Ok(())
}
