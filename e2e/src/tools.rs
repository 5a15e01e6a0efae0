//! helm and kubectl, for the tests of the chart.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::outcome::{Outcome, Stop};
use crate::selection::find_on_path;

/// Environment variable that names the folder with helm and kubectl.
const VARIABLE: &str = "DEPGUARD_HELM";

/// Folder with `helm` and `kubectl`.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds the tools in the folder that `DEPGUARD_HELM` names, or else in the cache of `e2e/helm/build`; otherwise
    /// returns the reason why there are none.
    pub fn find() -> Result<Tools, String> {
        if let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) {
            let missing = ["helm", "kubectl"].into_iter().find(|program| !folder.join(program).is_file());
            return match missing {
                Some(program) => Err(format!("{VARIABLE} is set, but has no `{program}`")),
                None => Ok(Tools { folder }),
            };
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/build");
        let cached = Command::new(script).arg("--cached").stderr(Stdio::null()).output();
        match cached {
            Ok(output) if output.status.success() => {
                Ok(Tools { folder: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()) })
            }
            _ if find_on_path("go").is_none() => Err(format!("go is not installed and {VARIABLE} is not set")),
            _ => Err("helm is not built yet; run e2e/helm/build once (some five minutes)".to_owned()),
        }
    }

    /// Returns true if `DEPGUARD_HELM` is set: then no test may be skipped for lack of the tools.
    pub fn are_a_must() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }

    /// Returns the folder, for a `PATH`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs helm and returns both of its outputs; if helm fails, the outputs are in the failure.
    pub fn helm<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Outcome<String> {
        run(Command::new(self.folder.join("helm")).args(arguments))
    }

    /// Runs kubectl and returns both of its outputs; if kubectl fails, the outputs are in the failure.
    pub fn kubectl<A: AsRef<OsStr>>(&self, kubeconfig: &Path, arguments: &[A]) -> Outcome<String> {
        run(Command::new(self.folder.join("kubectl")).env("KUBECONFIG", kubeconfig).args(arguments))
    }
}

/// Runs a program and returns its standard output, followed by its standard error; if the program fails, both are in
/// the failure.
pub fn run(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if output.status.success() { Ok(text) } else { Err(Stop::Failed(format!("{}: {text}", output.status))) }
}

/// Finds one of depguard's binaries: in the folder that `DEPGUARD_BINARIES` names, or where cargo put it, in the parent
/// of the test's folder.
pub fn binary(name: &str) -> Outcome<PathBuf> {
    let folder = match std::env::var_os("DEPGUARD_BINARIES") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_exe()?.parent().and_then(Path::parent).map(Path::to_owned).unwrap_or_default(),
    };
    binary_in(&folder, name).ok_or_else(|| {
        Stop::Skipped(format!(
            "no `{name}` in {}; build both with `cargo build -p depguard-controller -p depguard-webhook --features bin`, or set DEPGUARD_BINARIES",
            folder.display()
        ))
    })
}

/// Returns the path of a binary in a folder; `None` if the folder has none of this name.
pub fn binary_in(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|path| path.is_file())
}
