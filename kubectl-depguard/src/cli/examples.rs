//! Examples in the help of each command: data. A test parses each line as a shell would pass it.

use std::fmt::Write as _;

use clap::Command;

/// Examples of one command.
struct Examples {
    /// Names of the command and its subcommand.
    command: &'static [&'static str],
    /// Purpose of a line, and the line.
    lines: &'static [(&'static str, &'static str)],
}

const EXAMPLES: &[Examples] = &[
    Examples {
        command: &[],
        lines: &[
            ("Show why a VPC can't be deleted", "kubectl depguard why vpc shop"),
            ("Check rules and manifests before they are applied", "kubectl depguard lint -f rules.yaml"),
            ("Install depguard in a cluster", "kubectl depguard install --image registry.example.com/depguard:1.0"),
        ],
    },
    Examples {
        command: &["completion"],
        lines: &[
            ("Set up kubectl and all shells that are installed", "kubectl depguard completion --install"),
            ("Complete kubectl-depguard in this bash only", "source <(kubectl depguard completion bash)"),
        ],
    },
    Examples {
        command: &["dangling"],
        lines: &[
            ("Check all namespaces", "kubectl depguard dangling -A"),
            ("Check a folder of manifests, with the rules in it", "kubectl depguard dangling -R -f manifests/"),
            (
                "Check what kustomize builds",
                "kubectl kustomize overlays/prod | kubectl depguard dangling -f rules.yaml -f -",
            ),
            (
                "Check a manifest behind a URL",
                "curl -fsS https://example.com/app.yaml | kubectl depguard dangling -f rules.yaml -f -",
            ),
            (
                "Check what helm renders, with the rules and targets of the cluster",
                "helm template shop/ | kubectl depguard dangling --live -f -",
            ),
            ("Print the missing targets", "kubectl depguard dangling -A -o json | jq -r '.dangling[].target.name'"),
        ],
    },
    Examples {
        command: &["graph"],
        lines: &[
            ("Draw kinds and rules", "kubectl depguard graph -o svg > rules.svg"),
            ("Draw the objects of a namespace for Markdown", "kubectl depguard graph --objects -n shop -o mermaid"),
            (
                "Draw what kustomize builds",
                "kubectl kustomize overlays/prod | kubectl depguard graph --objects -f rules.yaml -f -",
            ),
        ],
    },
    Examples {
        command: &["impact"],
        lines: &[
            ("Show all that depends on a VPC", "kubectl depguard impact vpc shop"),
            ("Draw all that depends on two Secrets", "kubectl depguard impact secret db mail -n shop -o svg"),
            ("Show what a user would see", "kubectl depguard impact configmap/web-env -n shop --as ann"),
            ("Print the dependents' names", "kubectl depguard impact vpc shop -o json | jq -r '.dependents[].name'"),
        ],
    },
    Examples {
        command: &["import"],
        lines: &[
            (
                "Derive the rules for the service cluster",
                "kubectl depguard import published-resource -f published.yaml > rules.yaml",
            ),
            (
                "Derive the rules for kcp",
                "kubectl depguard import published-resource -f published.yaml --side kcp --export certs.example.com=root:providers:certs",
            ),
        ],
    },
    Examples {
        command: &["install"],
        lines: &[
            (
                "Show what would be installed",
                "kubectl depguard install --image registry.example.com/depguard:1.0 --dry-run=client -o yaml",
            ),
            (
                "Install with a certificate from cert-manager",
                "kubectl depguard install --image registry.example.com/depguard:1.0 --cert-manager",
            ),
        ],
    },
    Examples {
        command: &["lint"],
        lines: &[
            ("Check rules against the definitions beside them", "kubectl depguard lint -f rules.yaml --schemas crds/"),
            ("Check rules against a cluster", "kubectl depguard lint -f rules.yaml --live"),
            ("Check what kustomize builds", "kubectl kustomize overlays/prod | kubectl depguard lint -f -"),
            ("Check rules behind a URL", "curl -fsS https://example.com/rules.yaml | kubectl depguard lint -f -"),
            ("Annotate a pull request on GitHub", "kubectl depguard lint -f rules.yaml -o github --fail-on warning"),
        ],
    },
    Examples {
        command: &["order"],
        lines: &[
            ("Show in which order a namespace can be emptied", "kubectl depguard order -n shop"),
            ("Let the server try the first wave", "kubectl depguard order -n shop --delete --dry-run=server"),
            (
                "Empty the namespace, and wait at most 10 minutes for each wave",
                "kubectl depguard order -n shop --delete --timeout 10m",
            ),
            ("Show what goes with a VPC, and in which order", "kubectl depguard order vpc shop"),
            ("Delete a VPC after all that depend on it", "kubectl depguard order vpc shop --delete"),
            ("Order what Helm renders", "helm template shop ./chart | kubectl depguard order -f rules.yaml -f -"),
        ],
    },
    Examples { command: &["rules"], lines: &[("See which packs there are", "kubectl depguard rules list")] },
    Examples {
        command: &["rules", "list"],
        lines: &[("See what each pack protects", "kubectl depguard rules list -o wide")],
    },
    Examples {
        command: &["rules", "show"],
        lines: &[(
            "Write a pack to a file, to change it",
            "kubectl depguard rules show kubernetes-workloads > rules.yaml",
        )],
    },
    Examples {
        command: &["rules", "apply"],
        lines: &[("Let the server check a pack", "kubectl depguard rules apply kubernetes-workloads --dry-run=server")],
    },
    Examples {
        command: &["status"],
        lines: &[
            ("Show all of depguard", "kubectl depguard status"),
            (
                "Show the rules that are not enforced",
                "kubectl depguard status -o json | jq -r '.rules[] | select(.enforced != \"True\") | .name'",
            ),
        ],
    },
    Examples {
        command: &["suggest"],
        lines: &[
            ("Propose rules for the kinds of a cluster", "kubectl depguard suggest > rules.yaml"),
            (
                "Propose rules for a chart's definitions",
                "helm show crds ./chart | kubectl depguard suggest -f - -o table",
            ),
        ],
    },
    Examples {
        command: &["test"],
        lines: &[
            ("Run all suites of a folder", "kubectl depguard test -R -f tests/"),
            ("Write JUnit for CI", "kubectl depguard test -f suite.yaml -o junit > report.xml"),
        ],
    },
    Examples {
        command: &["trace"],
        lines: &[
            ("Show only the direct targets, as names", "kubectl depguard trace vm/web-1 --depth 1 -o name"),
            (
                "Show what a Deployment refers to, and whether that is there",
                "kubectl depguard trace deployment web -n shop",
            ),
            (
                "Ask manifests instead of a cluster",
                "kubectl depguard trace deployment/web -n shop -f rules.yaml -f manifests/",
            ),
        ],
    },
    Examples {
        command: &["bench"],
        lines: &[
            ("Try deletions of what rules protect, in all namespaces", "kubectl depguard bench -A"),
            (
                "Find out how many deletions at once are decided",
                "kubectl depguard bench -A --at-once=64 --requests=10000",
            ),
            ("Compare with a kind that no rule names", "kubectl depguard bench configmaps settings"),
        ],
    },
    Examples {
        command: &["ui"],
        lines: &[
            ("Open the page in a browser", "kubectl depguard ui"),
            ("Look at manifests instead of a cluster", "kubectl depguard ui -f rules.yaml -f manifests/"),
        ],
    },
    Examples {
        command: &["unused"],
        lines: &[
            ("List what nothing refers to, in all namespaces", "kubectl depguard unused -A"),
            ("List only what belongs to an app", "kubectl depguard unused -A -l app=web"),
            (
                "Look at what kustomize builds",
                "kubectl kustomize overlays/prod | kubectl depguard unused -f rules.yaml -f -",
            ),
        ],
    },
    Examples {
        command: &["uninstall"],
        lines: &[
            ("Show what would be removed", "kubectl depguard uninstall --dry-run=client"),
            ("Remove depguard and all rules", "kubectl depguard uninstall --crd"),
        ],
    },
    Examples {
        command: &["version"],
        lines: &[
            ("Show all versions", "kubectl depguard version"),
            ("Show only the version of this program, without a request", "kubectl depguard version --client -o json"),
        ],
    },
    Examples {
        command: &["why"],
        lines: &[
            ("Show what blocks the deletion of a VPC", "kubectl depguard why vpc shop"),
            (
                "Show what a ServiceAccount would be told",
                "kubectl depguard why vpc/shop --as system:serviceaccount:ci:deployer",
            ),
            (
                "Ask manifests instead of a cluster",
                "kubectl depguard why configmap web-env -n shop -f rules.yaml -f manifests/",
            ),
            ("Print the blockers", "kubectl depguard why vpc shop -o name"),
        ],
    },
];

/// Adds the examples to the help of each command.
pub(super) fn add(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, examples| add_to(command, examples.command, examples.lines))
}

fn add_to(command: Command, path: &[&'static str], lines: &[(&str, &str)]) -> Command {
    match path {
        // A command without such a subcommand stays as it is: `mut_subcommand` would panic.
        [first, rest @ ..] if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(*first, |inner| add_to(inner, rest, lines))
        }
        [_, ..] => command,
        [] => command.after_help(text(lines)),
    }
}

fn text(lines: &[(&str, &str)]) -> String {
    let mut text = "Examples:".to_owned();
    for (index, (purpose, line)) in lines.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        // Writing to a string can't fail.
        let _ = write!(text, "{gap}\n  # {purpose}\n  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(command: &Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for inner in command.get_subcommands() {
            commands(inner, &[path, &[inner.get_name().to_owned()]].concat(), all);
        }
    }

    #[test]
    fn each_command_has_examples_and_each_example_a_command() {
        let mut all = Vec::new();
        commands(&crate::command(), &[], &mut all);
        all.sort();
        let mut shown: Vec<Vec<String>> =
            EXAMPLES.iter().map(|of| of.command.iter().map(|&name| name.to_owned()).collect()).collect();
        shown.sort();
        assert_eq!(all, shown);
    }

    #[test]
    fn each_example_is_a_valid_command_line_of_its_command() {
        for Examples { command, lines } in EXAMPLES {
            for (purpose, line) in *lines {
                let own = line.split_once("kubectl depguard").map(|(_, rest)| rest).expect(line);
                let words = own.split(['|', '>', ')']).next().unwrap_or_default().split_whitespace();
                let words: Vec<_> = ["kubectl-depguard"].into_iter().chain(words).collect();
                let parsed = crate::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                assert!(command.iter().all(|name| words.contains(name)), "{line}");
                assert!(!purpose.ends_with('.') && !purpose.is_empty(), "{purpose}");
            }
        }
    }
}
