//! Rules about Crossplane: the Functions, runtime configurations, Compositions and Secrets that its kinds name.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{Dependency, Kind, SECRET, SERVICE, out, rule};
use super::{LeftOut, RulePack};

const APIEXTENSIONS: &str = "apiextensions.crossplane.io";
const OPS: &str = "ops.crossplane.io";
const PKG: &str = "pkg.crossplane.io";
const DEFINITION: Kind = Kind::new(APIEXTENSIONS, "v1", "CompositeResourceDefinition", "compositeresourcedefinitions");
const COMPOSITION: Kind = Kind::new(APIEXTENSIONS, "v1", "Composition", "compositions");
const ENVIRONMENT_CONFIG: Kind = Kind::new(APIEXTENSIONS, "v1beta1", "EnvironmentConfig", "environmentconfigs");
const OPERATION: Kind = Kind::new(OPS, "v1alpha1", "Operation", "operations");
const CRON_OPERATION: Kind = Kind::new(OPS, "v1alpha1", "CronOperation", "cronoperations");
const WATCH_OPERATION: Kind = Kind::new(OPS, "v1alpha1", "WatchOperation", "watchoperations");
const PROVIDER: Kind = Kind::new(PKG, "v1", "Provider", "providers");
const FUNCTION: Kind = Kind::new(PKG, "v1", "Function", "functions");
const CONFIGURATION: Kind = Kind::new(PKG, "v1", "Configuration", "configurations");
const IMAGE_CONFIG: Kind = Kind::new(PKG, "v1beta1", "ImageConfig", "imageconfigs");
const RUNTIME_CONFIG: Kind = Kind::new(PKG, "v1beta1", "DeploymentRuntimeConfig", "deploymentruntimeconfigs");

/// Namespace of the Secrets that packages and ImageConfigs name: Crossplane's own, where its documentation installs it.
const NAMESPACE: &str = "crossplane-system";

/// `apiVersion` of the input of function-environment-configs.
const ENVIRONMENT_INPUT: &str = "environmentconfigs.fn.crossplane.io/v1beta1";

pub(super) const PACK: RulePack = RulePack {
    name: "crossplane",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the Functions, EnvironmentConfigs and Secrets that Compositions and Operations use, the \
               Compositions and Services that CompositeResourceDefinitions name, and the DeploymentRuntimeConfigs and \
               Secrets of packages and ImageConfigs",
    notes: &[
        "Apply the rules in the cluster in which Crossplane runs.",
        "The rules expect the Secrets of packages and ImageConfigs in crossplane-system. If Crossplane runs in another \
         namespace, change the namespace in the rules for Providers, Functions, Configurations and ImageConfigs.",
        "Every provider has kinds of its own, and a rule names one kind of dependents: the webhook must know what to list, \
         and needs the right to. So no rule here keeps a ProviderConfig or its Secret, and the language has no pattern \
         for kinds. examples/crossplane-provider/rules.yaml has the rules for one provider; its comment says how to put \
         another provider's group in their place. One rule for ProviderConfigUsages is enough, since each managed \
         resource has such an object while it uses a ProviderConfig.",
        "The rules for composite resources, by .spec.crossplane.compositionRef.name or .spec.compositionRef.name, also \
         come from `kubectl depguard suggest --live`; a Composition here stays only for its \
         CompositeResourceDefinition.",
        "A CompositeResourceDefinition deletes its composite resources when it goes: `kubectl depguard suggest \
         --definitions --live` proposes the rules that keep a definition while objects of its kind exist.",
        "CompositionRevisions don't count, since former revisions stay: before you delete a Function, look whether a \
         composite resource still uses a revision that names the Function.",
        "An Operation that has ended counts until somebody deletes the Operation, or its CronOperation or \
         WatchOperation does.",
        "After the deletion of a Configuration, the garbage collector tries its Compositions again until their \
         CompositeResourceDefinitions are gone.",
    ],
    held_against: "the CustomResourceDefinitions of Crossplane, commit 2d040d2da (2026-08-07), and the input of \
                   function-environment-configs, v1beta1",
    rules,
    left_out: &[
        unnamed("compositions", ".spec.compositeTypeRef"),
        anything("compositions", ".spec.pipeline[*].requirements"),
        anything("operations", ".spec.pipeline[*].requirements"),
        anything("cronoperations", ".spec.operationTemplate.spec.pipeline[*].requirements"),
        anything("watchoperations", ".spec.operationTemplate.spec.pipeline[*].requirements"),
        anything("watchoperations", ".spec.watch"),
        anything("usages", ".spec.of"),
        anything("usages", ".spec.by"),
        anything("clusterusages", ".spec.of"),
        anything("clusterusages", ".spec.by"),
        out("compositions", ".spec.pipeline[*].credentials[*].name", "name that the Function knows"),
        out("operations", ".spec.pipeline[*].credentials[*].name", "name that the Function knows"),
        out(
            "cronoperations",
            ".spec.operationTemplate.spec.pipeline[*].credentials[*].name",
            "name that the Function knows",
        ),
        out(
            "watchoperations",
            ".spec.operationTemplate.spec.pipeline[*].credentials[*].name",
            "name that the Function knows",
        ),
        out("compositions", ".spec.writeConnectionSecretsToNamespace", "name of a namespace"),
        out("compositionrevisions", ".spec", "copy of a Composition; former revisions stay"),
        out(
            "compositeresourcedefinitions",
            ".spec.defaultCompositionRevisionSelector",
            "selects among the revisions that exist",
        ),
        unnamed("compositeresourcedefinitions", ".status.controllers"),
        out("operations", ".status.appliedResourceRefs", "record of the objects that the Operation applied"),
        made("cronoperations", ".status.runningOperationRefs"),
        made("watchoperations", ".status.runningOperationRefs"),
        out(
            "managedresourcedefinitions",
            ".spec.conversion.webhook.clientConfig.service.name",
            "Crossplane makes the Service, and deletes both with the provider",
        ),
        out("managedresourcedefinitions", ".spec.connectionDetails[*].name", "name of a key"),
        out(
            "managedresourceactivationpolicies",
            ".spec.activate",
            "patterns for names; a policy applies to each definition that a provider brings",
        ),
        out("managedresourceactivationpolicies", ".status.activated", "record of what the policy activated"),
        out(
            "deploymentruntimeconfigs",
            ".spec.deploymentTemplate",
            "the Deployment of the package refers to the objects: see the pack kubernetes-workloads",
        ),
        made("deploymentruntimeconfigs", ".spec.serviceAccountTemplate.metadata.name"),
        made("deploymentruntimeconfigs", ".spec.serviceTemplate.metadata.name"),
        copied("providerrevisions", ".spec.packagePullSecrets[*].name"),
        copied("functionrevisions", ".spec.packagePullSecrets[*].name"),
        copied("configurationrevisions", ".spec.packagePullSecrets[*].name"),
        copied("providerrevisions", ".spec.runtimeConfigRef.name"),
        copied("functionrevisions", ".spec.runtimeConfigRef.name"),
        made("providerrevisions", ".spec.tlsClientSecretName"),
        made("providerrevisions", ".spec.tlsServerSecretName"),
        made("functionrevisions", ".spec.tlsClientSecretName"),
        made("functionrevisions", ".spec.tlsServerSecretName"),
        made("providerrevisions", ".status.tlsClientSecretName"),
        made("providerrevisions", ".status.tlsServerSecretName"),
        made("functionrevisions", ".status.tlsClientSecretName"),
        made("functionrevisions", ".status.tlsServerSecretName"),
        made("providerrevisions", ".status.objectRefs"),
        made("functionrevisions", ".status.objectRefs"),
        made("configurationrevisions", ".status.objectRefs"),
        made("providers", ".status.currentRevision"),
        made("functions", ".status.currentRevision"),
        made("configurations", ".status.currentRevision"),
        matched("providers"),
        matched("functions"),
        matched("configurations"),
        matched("providerrevisions"),
        matched("functionrevisions"),
        matched("configurationrevisions"),
        out("imageconfigs", ".spec.verification.cosign.authorities[*].name", "name of the authority itself"),
        out(
            "imageconfigs",
            ".spec.verification.cosign.authorities[*].attestations[*].name",
            "name of the attestation itself",
        ),
        out("locks", ".packages[*].name", "Crossplane's list of the revisions that it made"),
    ],
};

fn rules() -> Vec<Value> {
    let environment = ENVIRONMENT_CONFIG
        .at(".spec.pipeline[*].input.spec.environmentConfigs[*].ref.name")
        .when(".spec.pipeline[*].input.apiVersion", &[ENVIRONMENT_INPUT]);
    let pull_secret = || in_crossplane(".spec.packagePullSecrets[*].name");
    vec![
        rule(
            "crossplane-compositeresourcedefinitions",
            DEFINITION,
            [
                COMPOSITION.at(".spec.defaultCompositionRef.name"),
                COMPOSITION.at(".spec.enforcedCompositionRef.name"),
                SERVICE
                    .at(".spec.conversion.webhook.clientConfig.service.name")
                    .namespace_at(".spec.conversion.webhook.clientConfig.service.namespace"),
            ],
        ),
        rule("crossplane-compositions", COMPOSITION, pipeline(".spec").into_iter().chain([environment])),
        rule("crossplane-operations", OPERATION, pipeline(".spec")),
        rule("crossplane-cronoperations", CRON_OPERATION, pipeline(".spec.operationTemplate.spec")),
        rule("crossplane-watchoperations", WATCH_OPERATION, pipeline(".spec.operationTemplate.spec")),
        rule("crossplane-providers", PROVIDER, [pull_secret(), runtime(".spec.runtimeConfigRef")]),
        rule("crossplane-functions", FUNCTION, [pull_secret(), runtime(".spec.runtimeConfigRef")]),
        rule("crossplane-configurations", CONFIGURATION, [pull_secret()]),
        rule(
            "crossplane-imageconfigs",
            IMAGE_CONFIG,
            [
                in_crossplane(".spec.registry.authentication.pullSecretRef.name"),
                in_crossplane(".spec.verification.cosign.authorities[*].key.secretRef.name"),
                runtime(".spec.runtime.configRef"),
            ],
        ),
    ]
}

/// Returns the references of a pipeline in the specification at a path: its Functions, and their credentials.
fn pipeline(spec: &str) -> [Dependency; 2] {
    let credentials = format!("{spec}.pipeline[*].credentials[*]");
    [
        FUNCTION.at(format!("{spec}.pipeline[*].functionRef.name")),
        SECRET
            .at(format!("{credentials}.secretRef.name"))
            .namespace_at(format!("{credentials}.secretRef.namespace"))
            .when(format!("{credentials}.source"), &["Secret"]),
    ]
}

/// Returns a reference to a DeploymentRuntimeConfig: the kind that is meant if the field names none.
fn runtime(at: &str) -> Dependency {
    RUNTIME_CONFIG.at(format!("{at}.name")).kind_at(format!("{at}.kind")).api_version_at(format!("{at}.apiVersion"))
}

/// Returns a reference to a Secret in Crossplane's namespace.
fn in_crossplane(path: &str) -> Dependency {
    SECRET.at(path).in_namespace(NAMESPACE)
}

const fn anything(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "means objects of any kind")
}

const fn unnamed(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "has the kind of composite resources, and no name")
}

const fn made(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "Crossplane makes the object")
}

const fn copied(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "Crossplane copies the name from the package, which has a rule")
}

const fn matched(resource: &'static str) -> LeftOut {
    out(resource, ".status.appliedImageConfigRefs", "the ImageConfig selects the packages")
}
