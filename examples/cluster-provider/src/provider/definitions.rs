//! CustomResourceDefinitions of this provider and of the contract.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Api;
use kube_client::core::params::{Patch, PatchParams};
use serde_json::Value;

use crate::platform::Platform;
use crate::{Error, Result};

/// Definition of this provider's own kind.
const OWN: &str = include_str!("../../crds/workspaceproviderconfigs.yaml");
/// Definitions of the contract, for a platform cluster that is only played.
const CONTRACT: &str = include_str!("../../crds/contract.yaml");

/// Applies this provider's own definition, whether it is missing, older or newer.
pub(super) async fn install(platform: &Platform) -> Result<()> {
    for definition in documents(OWN)? {
        apply(platform, &definition).await?;
    }
    Ok(())
}

/// Applies those definitions of the contract that are missing. The others came with the operator.
pub(crate) async fn install_contract(platform: &Platform) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(platform.client());
    for definition in documents(CONTRACT)? {
        let name = name(&definition);
        let doing = format!("read CustomResourceDefinition `{name}`");
        if definitions.get_opt(name).await.map_err(Error::api(doing))?.is_none() {
            apply(platform, &definition).await?;
        }
    }
    Ok(())
}

fn documents(manifest: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple(manifest)
        .map_err(|error| Error::Refused(format!("the manifest built into this program is broken: {error}")))
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

async fn apply(platform: &Platform, definition: &Value) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(platform.client());
    let name = name(definition);
    let parameters = PatchParams::apply("cluster-provider-example").force();
    definitions
        .patch(name, &parameters, &Patch::Apply(definition))
        .await
        .map_err(Error::api(format!("apply CustomResourceDefinition `{name}`")))?;
    Ok(())
}
