//! Rules about Artifact Conduit: the Endpoints, types, workflow templates and Secrets that Orders need.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::RulePack;
use super::notation::{Kind, SECRET, out, rule};

const GROUP: &str = "arc.opendefense.cloud";
const ORDER: Kind = Kind::new(GROUP, "v1alpha1", "Order", "orders");
const ENDPOINT: Kind = Kind::new(GROUP, "v1alpha1", "Endpoint", "endpoints");
const ARTIFACT_TYPE: Kind = Kind::new(GROUP, "v1alpha1", "ArtifactType", "artifacttypes");
const CLUSTER_ARTIFACT_TYPE: Kind = Kind::new(GROUP, "v1alpha1", "ClusterArtifactType", "clusterartifacttypes");
const ARTIFACT_WORKFLOW: Kind = Kind::new(GROUP, "v1alpha1", "ArtifactWorkflow", "artifactworkflows");

const ARGO: &str = "argoproj.io";
const WORKFLOW_TEMPLATE: Kind = Kind::new(ARGO, "v1alpha1", "WorkflowTemplate", "workflowtemplates");
const CLUSTER_WORKFLOW_TEMPLATE: Kind =
    Kind::new(ARGO, "v1alpha1", "ClusterWorkflowTemplate", "clusterworkflowtemplates");

pub(super) const PACK: RulePack = RulePack {
    name: "artifact-conduit",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the Endpoints and types that Orders name, the Secrets of Endpoints, and the templates of \
               workflows",
    notes: &[
        "Apply the rules in the cluster in which Artifact Conduit runs.",
        "Artifact Conduit reads the Endpoints, types and Secrets again as long as the Order exists, so a finished \
         Order keeps them too: delete the Order first, or give it a ttl.",
        "An artifact's type may be an ArtifactType of the Order's namespace or a ClusterArtifactType, and a template \
         may be one of the namespace or of the cluster; the rules keep both if both have the name.",
        "In kcp, apply the rules in the workspace of the APIExport: add apiExportName to each spec.dependent, and \
         apiExportRef, with the path and name of the export, to the targets of arc.opendefense.cloud. Leave out the \
         targets that the export does not serve, such as Secrets and templates: they are local there.",
    ],
    held_against: "Artifact Conduit's published types and API reference, order types of commit 09ea038, by hand; not \
                   held against definitions, since an aggregated API has none",
    rules,
    left_out: &[
        out("endpoints", ".spec.type", "a word that the rules of an ArtifactType list, no object's name"),
        out("artifactworkflows", ".status.activeWorkflowRef.name", "Argo Workflows made the Workflow"),
        out("orders", ".status.artifactWorkflows", "Artifact Conduit made the ArtifactWorkflows"),
    ],
};

fn rules() -> Vec<Value> {
    vec![
        rule(
            "artifact-conduit-orders",
            ORDER,
            [
                ENDPOINT.at(".spec.defaults.srcRef.name"),
                ENDPOINT.at(".spec.defaults.dstRef.name"),
                ENDPOINT.at(".spec.artifacts[*].srcRef.name"),
                ENDPOINT.at(".spec.artifacts[*].dstRef.name"),
                ARTIFACT_TYPE.at(".spec.artifacts[*].type"),
                CLUSTER_ARTIFACT_TYPE.at(".spec.artifacts[*].type"),
            ],
        ),
        rule("artifact-conduit-endpoints", ENDPOINT, [SECRET.at(".spec.secretRef.name")]),
        rule(
            "artifact-conduit-artifactworkflows",
            ARTIFACT_WORKFLOW,
            [
                SECRET.at(".spec.srcSecretRef.name"),
                SECRET.at(".spec.dstSecretRef.name"),
                WORKFLOW_TEMPLATE.at(".spec.workflowTemplateRef.name"),
                CLUSTER_WORKFLOW_TEMPLATE.at(".spec.workflowTemplateRef.name"),
            ],
        ),
        rule(
            "artifact-conduit-artifacttypes",
            ARTIFACT_TYPE,
            [
                WORKFLOW_TEMPLATE.at(".spec.workflowTemplateRef.name"),
                CLUSTER_WORKFLOW_TEMPLATE.at(".spec.workflowTemplateRef.name"),
            ],
        ),
        rule(
            "artifact-conduit-clusterartifacttypes",
            CLUSTER_ARTIFACT_TYPE,
            [CLUSTER_WORKFLOW_TEMPLATE.at(".spec.workflowTemplateRef.name")],
        ),
    ]
}
