//! Rules about Flux: the references among Kustomizations, HelmReleases and their sources, and their Secrets.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE_ACCOUNT, out, rule};
use super::{LeftOut, RulePack};

const SOURCES: &str = "source.toolkit.fluxcd.io";
const KUSTOMIZATION: Kind = Kind::new("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations");
const HELM_RELEASE: Kind = Kind::new("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases");
const BUCKET: Kind = Kind::new(SOURCES, "v1", "Bucket", "buckets");
const EXTERNAL_ARTIFACT: Kind = Kind::new(SOURCES, "v1", "ExternalArtifact", "externalartifacts");
const GIT_REPOSITORY: Kind = Kind::new(SOURCES, "v1", "GitRepository", "gitrepositories");
const HELM_CHART: Kind = Kind::new(SOURCES, "v1", "HelmChart", "helmcharts");
const HELM_REPOSITORY: Kind = Kind::new(SOURCES, "v1", "HelmRepository", "helmrepositories");
const OCI_REPOSITORY: Kind = Kind::new(SOURCES, "v1", "OCIRepository", "ocirepositories");

pub(super) const PACK: RulePack = RulePack {
    name: "flux",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the sources, Secrets, ConfigMaps and ServiceAccounts that Flux reads, and the Kustomizations and \
               HelmReleases that others depend on",
    notes: &[
        "Apply the rules in each cluster in which Flux runs.",
        "If Flux prunes a source together with a Kustomization that names the source, the first attempt may be \
         refused; Flux tries again, and succeeds once the Kustomization is gone.",
        "A Kustomization that is being deleted still keeps its ServiceAccount and its kubeconfig: Flux prunes with \
         them. A suspended Kustomization or HelmRelease keeps what it names, too.",
        "The Secrets and ConfigMaps of substituteFrom and valuesFrom are kept even if they are marked as optional.",
        "flux uninstall deletes the definitions of Flux's kinds; the rules do not hold it up.",
    ],
    held_against: "the CustomResourceDefinitions of source-controller, commit 39b711b1, and kustomize-controller, \
                   commit 186fb3b (2026-08-01); those of HelmReleases by hand against helm-controller, commit 0f61a860 \
                   (2026-07-23), and no test holds them against that definition",
    rules,
    left_out: &[
        anything("kustomizations", ".spec.healthChecks[*].name"),
        out("kustomizations", ".spec.healthCheckExprs[*].kind", "names a kind, no object"),
        selection("kustomizations", ".spec.patches[*].target"),
        selection("kustomizations", ".spec.ignore[*].target"),
        selection("helmreleases", ".spec.driftDetection.ignore[*].target"),
        selection("helmreleases", ".spec.postRenderers[*].kustomize.patches[*].target"),
        image("kustomizations", ".spec.images[*].name"),
        image("helmreleases", ".spec.postRenderers[*].kustomize.images[*].name"),
        namespace("kustomizations", ".spec.targetNamespace"),
        namespace("helmreleases", ".spec.targetNamespace"),
        namespace("helmreleases", ".spec.storageNamespace"),
        out("kustomizations", ".status.inventory", "Flux made the objects"),
        out("helmreleases", ".status.inventory", "Flux made the objects"),
        out("helmreleases", ".status.helmChart", "Flux made the HelmChart"),
        out("helmreleases", ".status.history", "history of Helm's releases"),
        out("helmreleases", ".spec.releaseName", "name of a release of Helm"),
        out("helmreleases", ".spec.test.filters[*].name", "names a test hook of the chart"),
        out(
            "externalartifacts",
            ".spec.sourceRef.name",
            "names the object that makes the ExternalArtifact and deletes it at its own end",
        ),
        out("gitrepositories", ".spec.ref.name", "name of a Git reference"),
        out("gitrepositories", ".status.observedInclude[*].repository.name", "repeats .spec.include"),
        out("buckets", ".spec.bucketName", "name outside of the cluster"),
    ],
};

fn rules() -> Vec<Value> {
    let secrets = |paths: &[&str]| -> Vec<Dependency> { paths.iter().map(|path| SECRET.at(*path)).collect() };
    let mut kustomization = vec![
        SECRET.at(".spec.decryption.secretRef.name"),
        SERVICE_ACCOUNT.at(".spec.decryption.serviceAccountName"),
        referred(KUSTOMIZATION, ".spec.dependsOn[*]"),
    ];
    kustomization.extend(access());
    kustomization.extend(settings(".spec.postBuild.substituteFrom[*]"));
    kustomization.extend(
        [GIT_REPOSITORY, OCI_REPOSITORY, BUCKET, EXTERNAL_ARTIFACT].map(|source| one_of(source, ".spec.sourceRef")),
    );
    let mut release = vec![
        // Flux makes the HelmChart in the namespace of its source.
        SECRET.at(".spec.chart.spec.verify.secretRef.name").namespace_at(".spec.chart.spec.sourceRef.namespace"),
        referred(HELM_RELEASE, ".spec.dependsOn[*]"),
    ];
    release.extend(access());
    release.extend(settings(".spec.valuesFrom[*]"));
    release
        .extend([HELM_REPOSITORY, GIT_REPOSITORY, BUCKET].map(|source| one_of(source, ".spec.chart.spec.sourceRef")));
    release.extend([OCI_REPOSITORY, HELM_CHART, EXTERNAL_ARTIFACT].map(|source| one_of(source, ".spec.chartRef")));
    let mut bucket = secrets(&[
        ".spec.secretRef.name",
        ".spec.certSecretRef.name",
        ".spec.proxySecretRef.name",
        ".spec.sts.secretRef.name",
        ".spec.sts.certSecretRef.name",
    ]);
    bucket.push(SERVICE_ACCOUNT.at(".spec.serviceAccountName"));
    let mut git = secrets(&[".spec.secretRef.name", ".spec.proxySecretRef.name", ".spec.verify.secretRef.name"]);
    git.push(SERVICE_ACCOUNT.at(".spec.serviceAccountName"));
    git.push(GIT_REPOSITORY.at(".spec.include[*].repository.name"));
    let mut oci = secrets(&[
        ".spec.secretRef.name",
        ".spec.certSecretRef.name",
        ".spec.proxySecretRef.name",
        ".spec.verify.secretRef.name",
        ".spec.verify.trustedRootSecretRef.name",
    ]);
    oci.push(SERVICE_ACCOUNT.at(".spec.serviceAccountName"));
    let mut chart = secrets(&[".spec.verify.secretRef.name"]);
    chart.extend(
        [HELM_REPOSITORY, GIT_REPOSITORY, BUCKET]
            .map(|source| source.at(".spec.sourceRef.name").kind_at(".spec.sourceRef.kind")),
    );
    vec![
        rule("flux-kustomizations", KUSTOMIZATION, kustomization),
        rule("flux-helmreleases", HELM_RELEASE, release),
        rule("flux-gitrepositories", GIT_REPOSITORY, git),
        rule("flux-ocirepositories", OCI_REPOSITORY, oci),
        rule("flux-buckets", BUCKET, bucket),
        rule("flux-helmcharts", HELM_CHART, chart),
        rule("flux-helmrepositories", HELM_REPOSITORY, secrets(&[".spec.secretRef.name", ".spec.certSecretRef.name"])),
    ]
}

/// Returns the references by which a Kustomization or a HelmRelease gets access to a cluster.
fn access() -> [Dependency; 3] {
    [
        SERVICE_ACCOUNT.at(".spec.serviceAccountName"),
        SECRET.at(".spec.kubeConfig.secretRef.name"),
        CONFIG_MAP.at(".spec.kubeConfig.configMapRef.name"),
    ]
}

/// Returns the references of a list of Secrets and ConfigMaps.
fn settings(at: &str) -> [Dependency; 2] {
    [SECRET, CONFIG_MAP].map(|kind| kind.at(format!("{at}.name")).kind_at(format!("{at}.kind")))
}

/// Returns a reference by the name and namespace in the object at a path.
fn referred(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).namespace_at(format!("{at}.namespace"))
}

/// Returns a reference that may also name a source of another kind.
fn one_of(source: Kind, at: &str) -> Dependency {
    referred(source, at).kind_at(format!("{at}.kind"))
}

const fn anything(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names an object of any kind; Flux only watches it")
}

const fn selection(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "selects among the objects that Flux applies itself")
}

const fn image(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "name of a container image")
}

const fn namespace(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "name of a namespace")
}
