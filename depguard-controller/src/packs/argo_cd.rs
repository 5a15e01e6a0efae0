//! Rules about Argo CD: the projects of Applications, and the Secrets and ConfigMaps of generators.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, out, rule, saying_left_out};
use super::{LeftOut, RulePack};

const GROUP: &str = "argoproj.io";
const APPLICATION: Kind = Kind::new(GROUP, "v1alpha1", "Application", "applications");
const APPLICATION_SET: Kind = Kind::new(GROUP, "v1alpha1", "ApplicationSet", "applicationsets");
const APP_PROJECT: Kind = Kind::new(GROUP, "v1alpha1", "AppProject", "appprojects");

/// Places of generators that have a schema; a generator within a generator within another one has none.
const GENERATORS: [&str; 3] =
    [".spec.generators[*]", ".spec.generators[*].matrix.generators[*]", ".spec.generators[*].merge.generators[*]"];

/// Generators that may have a template of their own.
const TEMPLATED: [&str; 7] =
    ["clusterDecisionResource", "clusters", "git", "list", "plugin", "pullRequest", "scmProvider"];

/// Fields of a generator with the name of a Secret.
const SECRET_NAMES: [&str; 17] = [
    "pullRequest.azuredevops.tokenRef.secretName",
    "pullRequest.bitbucket.basicAuth.passwordRef.secretName",
    "pullRequest.bitbucket.bearerToken.tokenRef.secretName",
    "pullRequest.bitbucketServer.basicAuth.passwordRef.secretName",
    "pullRequest.bitbucketServer.bearerToken.tokenRef.secretName",
    "pullRequest.gitea.tokenRef.secretName",
    "pullRequest.github.appSecretName",
    "pullRequest.github.tokenRef.secretName",
    "pullRequest.gitlab.tokenRef.secretName",
    "scmProvider.azureDevOps.accessTokenRef.secretName",
    "scmProvider.bitbucket.appPasswordRef.secretName",
    "scmProvider.bitbucketServer.basicAuth.passwordRef.secretName",
    "scmProvider.bitbucketServer.bearerToken.tokenRef.secretName",
    "scmProvider.gitea.tokenRef.secretName",
    "scmProvider.github.appSecretName",
    "scmProvider.github.tokenRef.secretName",
    "scmProvider.gitlab.tokenRef.secretName",
];

/// Fields of a generator with the name of a ConfigMap.
const CONFIG_MAP_NAMES: [&str; 6] = [
    "clusterDecisionResource.configMapRef",
    "plugin.configMapRef.name",
    "pullRequest.bitbucketServer.caRef.configMapName",
    "pullRequest.gitlab.caRef.configMapName",
    "scmProvider.bitbucketServer.caRef.configMapName",
    "scmProvider.gitlab.caRef.configMapName",
];

pub(super) const PACK: RulePack = RulePack {
    name: "argo-cd",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps an AppProject that Applications or ApplicationSets have, and the Secrets and ConfigMaps that \
               ApplicationSets read",
    notes: &[
        "Apply the rules in the cluster in which Argo CD runs.",
        "An Application may be in another namespace than its project: Argo CD writes its own namespace into the \
         Application's status.controllerNamespace, and the rules look for the project there. An Application that Argo \
         CD has not seen yet counts in its own namespace.",
        "An ApplicationSet has no such field, so its project, its ConfigMaps and the Secrets of GitHub Apps count in \
         its own namespace: an ApplicationSet outside of Argo CD's namespace does not keep them, but the Applications \
         that exist keep their project.",
        "A name with a template, such as {{.path.basename}}, is not the name of any object.",
        "If Argo CD prunes a project together with its Applications, the first attempt may be refused; Argo CD tries \
         again, and succeeds once the Applications are gone.",
    ],
    held_against: "the CustomResourceDefinitions of Argo CD, commit 37ee0097cf (2026-08-22)",
    rules,
    left_out: &[
        source("applications", ".spec.source"),
        source("applications", ".spec.sources[*]"),
        source("applications", ".spec.sourceHydrator"),
        cluster("applications", ".spec.destination.name"),
        namespace("applications", ".spec.destination.namespace"),
        managed("applications", ".spec.ignoreDifferences[*]"),
        managed("applications", ".status.resources[*]"),
        managed("applications", ".status.operationState"),
        managed("applications", ".operation"),
        out("applications", ".status.sync", "repeats the spec"),
        out("applications", ".status.history[*]", "history of the spec"),
        out("applications", ".status.sourceHydrator", "history of the spec"),
        out("applications", ".status.controllerNamespace", "name of a namespace"),
        template(".spec.template"),
        template(".spec.generators[*].clusterDecisionResource.template"),
        template(".spec.generators[*].clusters.template"),
        template(".spec.generators[*].git.template"),
        template(".spec.generators[*].list.template"),
        template(".spec.generators[*].plugin.template"),
        template(".spec.generators[*].pullRequest.template"),
        template(".spec.generators[*].scmProvider.template"),
        template(".spec.generators[*].matrix.template"),
        template(".spec.generators[*].merge.template"),
        external(".spec.generators[*].pullRequest.azuredevops.project"),
        external(".spec.generators[*].pullRequest.bitbucketServer.project"),
        external(".spec.generators[*].pullRequest.gitlab.project"),
        external(".spec.generators[*].scmProvider.azureDevOps.teamProject"),
        external(".spec.generators[*].scmProvider.bitbucketServer.project"),
        nested(".spec.generators[*].matrix.generators[*]"),
        nested(".spec.generators[*].merge.generators[*]"),
        unschemed(".spec.generators[*].matrix.generators[*].matrix"),
        unschemed(".spec.generators[*].matrix.generators[*].merge"),
        unschemed(".spec.generators[*].merge.generators[*].matrix"),
        unschemed(".spec.generators[*].merge.generators[*].merge"),
        out(
            "applicationsets",
            ".spec.generators[*].clusterDecisionResource.name",
            "names an object of the kind that the ConfigMap says",
        ),
        out("applicationsets", ".spec.ignoreApplicationDifferences[*].name", "names an Application that Argo CD makes"),
        managed("applicationsets", ".status.resources[*]"),
        project_limit(".spec.destinations[*]"),
        project_limit(".spec.sourceNamespaces"),
        project_limit(".spec.sourceRepos"),
        project_limit(".spec.clusterResourceWhitelist[*]"),
        project_limit(".spec.clusterResourceBlacklist[*]"),
        project_limit(".spec.namespaceResourceWhitelist[*]"),
        project_limit(".spec.namespaceResourceBlacklist[*]"),
        project_limit(".spec.orphanedResources.ignore[*]"),
        project_limit(".spec.syncWindows[*]"),
        out(
            "appprojects",
            ".spec.destinationServiceAccounts[*].defaultServiceAccount",
            "ServiceAccount in the destination, which may be another cluster",
        ),
        out("appprojects", ".spec.roles[*].name", "role within the project"),
    ],
};

fn rules() -> Vec<Value> {
    vec![
        rule(
            "argo-cd-applications",
            APPLICATION,
            [APP_PROJECT.at(".spec.project").namespace_at(".status.controllerNamespace")],
        ),
        saying_left_out(rule("argo-cd-applicationsets", APPLICATION_SET, application_set()), PACK.left_out),
    ]
}

fn application_set() -> Vec<Dependency> {
    let project = |of: &str| APP_PROJECT.at(format!("{of}.template.spec.project"));
    let mut dependencies =
        vec![project(".spec"), project(".spec.generators[*].matrix"), project(".spec.generators[*].merge")];
    for generator in GENERATORS {
        dependencies.extend(TEMPLATED.map(|field| project(&format!("{generator}.{field}"))));
        dependencies.extend(SECRET_NAMES.map(|field| SECRET.at(format!("{generator}.{field}"))));
        dependencies.extend(CONFIG_MAP_NAMES.map(|field| CONFIG_MAP.at(format!("{generator}.{field}"))));
    }
    dependencies
}

const fn source(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names within a repository or a source, no objects of the cluster")
}

const fn cluster(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "name of a cluster, which a Secret has as a value")
}

const fn namespace(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "name of a namespace")
}

const fn managed(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "objects that Argo CD itself applies")
}

const fn template(path: &'static str) -> LeftOut {
    out("applicationsets", path, "but for the project, names that count only once an Application has them")
}

const fn external(path: &'static str) -> LeftOut {
    out("applicationsets", path, "project of a Git server")
}

const fn nested(path: &'static str) -> LeftOut {
    out("applicationsets", path, "what is left out of an outer generator, and nothing else")
}

const fn unschemed(path: &'static str) -> LeftOut {
    out("applicationsets", path, "generators of the third level have no schema")
}

const fn project_limit(path: &'static str) -> LeftOut {
    out("appprojects", path, "a limit of what Applications may do; nothing needs to exist")
}
