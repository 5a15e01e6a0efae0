//! Values and flags in the documents, tried on the chart and on the binaries.

use std::path::{Path, PathBuf};

use depguard_e2e::{Outcome, Stop, ensure};

use crate::chart::{Chart, NAMESPACE};
use crate::rendered::is_taken;

/// Checks that the chart accepts each block of values in the documents.
pub(crate) fn values(chart: &Chart) -> Outcome {
    let mut rendered = 0;
    for document in ["install-kubernetes.md", "install-kcp.md", "operations.md"] {
        let text = std::fs::read_to_string(folder().join("docs").join(document))?;
        for block in text.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next()) {
            let whole = block.contains("image: {repository");
            // A complete block is used as it stands; a partial one is added to the smallest values.
            let values = if whole { block.to_owned() } else { format!("{}{block}", crate::values::KUBERNETES) };
            if !block.contains("kind:") {
                let why = |stop: Stop| Stop::Failed(format!("{document}: {block}: {stop}"));
                chart.render(NAMESPACE, &values, &[]).map_err(why)?;
                rendered += 1;
            }
        }
    }
    ensure(rendered > 4, || format!("only {rendered} blocks were found"))
}

/// Checks that the binaries accept each line that begins with the name of a binary.
pub(crate) fn flags() -> Outcome {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder().join("docs"))?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    files.push(folder().join("README.md"));
    let mut taken = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(file)?;
        for line in text.lines().filter_map(|line| line.strip_prefix("$ depguard-")) {
            let words: Vec<String> =
                line.split('#').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
            let (name, flags) = words.split_first().ok_or_else(|| Stop::failed("an empty line"))?;
            let flags: Vec<_> = flags.iter().map(|flag| flag.replace('$', "")).collect();
            is_taken(&format!("/depguard-{name}"), &flags)
                .map_err(|why| Stop::Failed(format!("{}: {why}", file.display())))?;
            taken += 1;
        }
    }
    ensure(taken > 4, || format!("only {taken} lines were found"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
