//! Rendered objects, checked against the schemas of a real kube-apiserver.

use std::path::PathBuf;

use depguard_e2e::tools::Tools;
use depguard_e2e::{Outcome, Ring, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::chart::{Chart, NAMESPACE};
use crate::values::{Case, KUBERNETES};

/// A kube-apiserver that only tries objects out (dry run) and changes nothing.
pub(crate) struct Cluster {
    folder: TempDir,
    tools: Tools,
}

impl Cluster {
    /// Creates the namespace, which warns of pods that are not restricted, and the kinds that the API server lacks.
    pub(crate) async fn prepare(ring: &Ring, tools: &Tools) -> Outcome<Cluster> {
        let cluster = Cluster { folder: tempfile::tempdir()?, tools: tools.clone() };
        ring.write_kubeconfig("", &cluster.kubeconfig())?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/warn": "restricted"},
        }});
        ring.admin().await?.post("/api/v1/namespaces", &namespace).await?.ok_or_there()?;
        let crds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/chart/crds.yaml");
        cluster.kubectl(&["apply", "--filename", &crds.to_string_lossy()])?;
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
        Ok(cluster)
    }

    /// Checks that the API server accepts every object of a case, knows all fields and warns of nothing.
    pub(crate) fn takes(&self, chart: &Chart, case: &Case) -> Outcome {
        let said = self.try_out(&chart.render(NAMESPACE, case.control_plane, case.set)?)?;
        ensure(!said.contains("Warning"), || format!("the API server warns: {said}"))
    }

    /// Checks that acceptance proves something: the API server refuses, or warns of, objects with a mistake.
    pub(crate) fn sees_mistakes(&self, chart: &Chart) -> Outcome {
        let text = chart.render(NAMESPACE, KUBERNETES, &[])?;
        let unknown = self.try_out(&text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"));
        ensure(unknown.is_err_and(|why| why.to_string().contains("readOnlyRootFileSystem")), || {
            "a mistyped field was taken".to_owned()
        })?;
        let said = self.try_out(&text.replace("runAsNonRoot: true", "runAsNonRoot: false"))?;
        ensure(said.contains("would violate PodSecurity"), || format!("root was let in: {said}"))
    }

    fn try_out(&self, objects: &str) -> Outcome<String> {
        let file = self.folder.path().join("objects.yaml");
        std::fs::write(&file, objects)?;
        let strictly = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename"];
        self.kubectl(&[&strictly[..], &[&file.to_string_lossy()]].concat())
    }

    fn kubectl(&self, arguments: &[&str]) -> Outcome<String> {
        self.tools.kubectl(&self.kubeconfig(), arguments)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}
