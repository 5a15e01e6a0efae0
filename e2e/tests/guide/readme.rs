//! Commands whose output the README and the guide show in a block of its own.

use depguard_e2e::{Outcome, Stop, ensure};

use crate::walkthrough::{Place, Walkthrough};
use crate::{Programs, folder, is_written};

const DOCUMENTS: [&str; 2] = ["README.md", "docs/guide.md"];

const BEGIN: &str = "<!-- output of: ";

/// Checks that each block after `<!-- output of: … -->` is the output of that command.
pub(crate) async fn is_current(programs: &Programs) -> Outcome {
    let kubectl = programs.examples();
    let mut walkthrough =
        Walkthrough::begin(Place { programs, kubectl: &kubectl, server: None, writes: false, paints: false })?;
    let mut blocks = 0;
    for name in DOCUMENTS {
        let path = folder().join(name);
        let document = std::fs::read_to_string(&path)?;
        let mut parts = document.split(BEGIN);
        let mut current = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let wrong = || Stop::Failed(format!("{name}: no block follows: {part}"));
            let (command, rest) = part.split_once(" -->\n```").ok_or_else(wrong)?;
            let (language, block) = rest.split_once('\n').ok_or_else(wrong)?;
            let rest = &block[block.find("```").ok_or_else(wrong)?..];
            let done = walkthrough.shell(command).await?;
            ensure(done.code == 0 && !done.printed.is_empty(), || format!("{name}: {command}: {}", done.printed))?;
            current.extend([BEGIN, command, " -->\n```", language, "\n", &done.printed, rest]);
            blocks += 1;
        }
        if is_written() {
            std::fs::write(&path, current)?;
        } else {
            ensure(document == current, || {
                format!("{name}: what is shown is not what is printed, which is\n{current}")
            })?;
        }
    }
    ensure(blocks > 0, || "no document shows an output".to_owned())
}
