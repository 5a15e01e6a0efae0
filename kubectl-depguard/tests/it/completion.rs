//! Completion: as kubectl asks for it, and in real shells.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use kubectl_depguard::{ExitStatus, Terminal, run};
use serde_json::json;
use tempfile::TempDir;

use crate::bed::Bed;
use crate::tool::depguard;

const PROGRAM: &str = "kubectl-depguard";
const FOR_KUBECTL: &str = "kubectl_complete-depguard";

/// Lines with a word to complete, and the word that completes it.
const LINES: [(&str, &str); 9] = [
    ("wh", "why"),
    ("why -o j", "json"),
    ("order --dry-run s", "server"),
    ("why configm", "configmaps"),
    ("why configmaps web-e", "web-env"),
    ("impact -n default configmaps/web-e", "configmaps/web-env"),
    ("dangling -n defau", "default"),
    ("dangling --namespace=defau", "--namespace=default"),
    ("rules show kubernetes-w", "kubernetes-workloads"),
];

/// Each case: the words that kubectl passes on, the candidates, and the directive.
#[tokio::test]
async fn the_last_word_is_completed_by_the_words_before_it() {
    let guide = |file| format!("{}/../examples/guide/{file}", env!("CARGO_MANIFEST_DIR"));
    let (rules, objects) = (guide("rules.yaml"), guide("objects.yaml"));
    for (typed, completed, last) in [
        (&["wh"][..], &["why\tShow what"][..], ":4"),
        (&["why", "vpc", "-o", ""], &["json\tJSON", "name\t"], ":4"),
        (&["why", "--a"], &["--all\t", "--all-namespaces\t"], ":4"),
        (&["order", "--dry-run=s"], &["--dry-run=server\t"], ":4"),
        (&["completion", "b"], &["bash\t"], ":4"),
        (&["-n", "why", "dang"], &["dangling\t"], ":4"),
        (&["why", "-f", ""], &[], ":0"),
        (&["why", "--nope="], &[], ":4"),
        (&[], &["completion\t", "why\t"], ":4"),
        (&["rules", "show", "kcp", "openm"], &["openmcp\t"], ":4"),
        (&["why", "-f", &rules, "-f", &objects, "vpcs.n"], &["vpcs.network.example.com\tVPC"], ":4"),
        (&["why", "-f", &rules, "-f", &objects, "vpc", "sh"], &["shop\t"], ":4"),
        (&["why", "-f", &rules, "-f", &objects, "subnet", "web", "d"], &["db\t"], ":4"),
        (&["why", "-f", &rules, "-f", &objects, "VPC/sh"], &["VPC/shop\t"], ":4"),
        (&["impact", "-f", &objects, "vpc", "-n", ""], &["default\t"], ":4"),
        (&["order", "-f", &objects, "def"], &["default\t"], ":4"),
        (&["order", "-f", &objects, "vpc", "sh"], &["shop\t"], ":4"),
        (&["order", "-f", &objects, "vpc/sh"], &["vpc/shop\t"], ":4"),
        (&["why", "-f", "/nowhere", "vpc", ""], &[], ":4"),
    ] {
        let out = complete(&["/bin/kubectl_complete-depguard"], typed).await;
        assert_eq!(out, complete(&["kubectl-depguard", "__complete"], typed).await);
        assert!(out.ends_with(&format!("{last}\n")), "{typed:?}: {out}");
        for word in completed {
            assert!(out.lines().any(|line| line.starts_with(word)), "{typed:?}: {word} in {out}");
        }
        let begun = typed.last().copied().unwrap_or_default();
        assert!(out.lines().all(|line| line.starts_with(begun) || line == last), "{typed:?}: {out}");
        assert!(!completed.is_empty() || out.lines().count() == 1, "{typed:?}: {out}");
    }
}

async fn complete(program: &[&str], typed: &[&str]) -> String {
    let (mut terminal, captured) = Terminal::captured("");
    let args = program.iter().chain(typed).map(OsString::from);
    assert_eq!(run(args, &mut terminal).await, ExitStatus::Well);
    assert_eq!(captured.err(), "", "a shell shows nothing of it");
    captured.out()
}

/// A completion never shows names of another namespace, a list that nobody reads, or a name as several lines.
#[tokio::test]
async fn names_are_those_of_the_namespace_few_and_a_line_each() {
    let folder = tempfile::tempdir().unwrap();
    let object = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
    let mut items: Vec<_> = (0..1200).map(|number| object("many", &format!("m{number}"))).collect();
    items.extend([object("shop", "own"), object("elsewhere", "other"), object("hostile", "a\nb\tc\u{1b}[31m")]);
    let file = folder.path().join("all.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let of = async |namespace| {
        let typed = ["why", "-f", file.to_str().unwrap(), "-n", namespace, "configmap", ""];
        complete(&[PROGRAM, "__complete"], &typed).await
    };
    assert_eq!(of("shop").await, "own\t\n:4\n");
    assert_eq!(of("hostile").await, "a b c [31m\t\n:4\n");
    assert_eq!(of("many").await.lines().count(), 1000 + 1);
}

#[tokio::test]
async fn contexts_clusters_and_users_come_from_the_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = "{apiVersion: v1, kind: Config, contexts: [{name: blue, context: {cluster: c, user: u}}], \
                      clusters: [{name: bluff, cluster: {server: 'https://a'}}], users: [{name: blunt, user: {}}]}";
    std::fs::write(&file, kubeconfig).unwrap();
    for (flag, name) in [("--context", "blue"), ("--cluster", "bluff"), ("--user", "blunt")] {
        let typed = ["why", "--kubeconfig", file.to_str().unwrap(), flag, "b"];
        assert_eq!(complete(&[PROGRAM, "__complete"], &typed).await, format!("{name}\t\n:4\n"));
    }
}

/// API server with a few objects, and a folder with the plugin.
struct Scene {
    _bed: Bed,
    folder: TempDir,
    kubeconfig: String,
}

impl Scene {
    async fn start() -> Self {
        let bed = Bed::kubernetes().await;
        for name in ["web-env", "other"] {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
            bed.endpoint().post_json("/api/v1/namespaces/default/configmaps", &object).await.unwrap();
        }
        let kubeconfig = bed.kubeconfig("admin", "", "admin");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_kubectl-depguard"), folder.path().join("bin").join(PROGRAM)).unwrap();
        Self { _bed: bed, folder, kubeconfig }
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Runs a program that finds the plugin on its PATH; `None` if the program is not installed.
    fn run(&self, program: &str, args: &[&str]) -> Option<String> {
        let Output { stdout, stderr, .. } = self.output(program, args)?;
        Some(format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
    }

    fn output(&self, program: &str, args: &[&str]) -> Option<Output> {
        let path = format!("{}:{}", self.bin().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME").env_remove("BASH_COMPLETION_USER_DIR");
        command.args(args).env("PATH", path).env("HOME", self.folder.path()).env("TERM", "xterm");
        let ran = command.env("KUBECONFIG", &self.kubeconfig).output().ok();
        if ran.is_none() {
            println!("skipped: there is no {program}");
        }
        ran
    }

    /// Writes the script of a shell, and returns its path.
    async fn script(&self, shell: &str) -> String {
        let file = self.folder.path().join(format!("script.{shell}"));
        std::fs::write(&file, depguard(&["completion", shell]).await.well()).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

/// Calls the function that the script registers, with the words as bash splits them.
#[tokio::test(flavor = "multi_thread")]
async fn bash_completes() {
    let scene = Scene::start().await;
    let script = scene.script("bash").await;
    for (typed, completed) in LINES {
        let line = format!(
            "source {script} && COMP_WORDS=(kubectl-depguard {}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && \
             name=$(complete -p kubectl-depguard | sed 's/.*-F \\([^ ]*\\).*/\\1/') && $name 2>/dev/null; \
             echo \"${{COMPREPLY[*]}}\"",
            typed.replace('=', " = "),
        );
        let Some(out) = scene.run("bash", &["--norc", "-c", &line]) else { return };
        // Bash keeps what stands before the `=`.
        assert_eq!(out.trim(), completed.trim_start_matches("--namespace="), "{typed}");
    }
}

/// Types each line into an interactive zsh, and presses the tab key.
#[tokio::test(flavor = "multi_thread")]
async fn zsh_completes() {
    let scene = Scene::start().await;
    if scene.run("zsh", &["--version"]).is_none() {
        return;
    }
    let (script, out) = (scene.script("zsh").await, scene.folder.path().join("lines"));
    let mut driver = format!(
        "zmodload zsh/zpty\n\
         zpty shell 'zsh -f -i'\n\
         zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source {script}; \
         record() {{ print -r -- $BUFFER >>{out}; BUFFER= }}; zle -N record; bindkey \"^T\" record; \
         bindkey \"^I\" complete-word; print rea\"\"dy'\n\
         zpty -r shell line '*ready*'\n",
        out = out.display(),
    );
    for (typed, _) in LINES {
        driver.push_str(&format!("zpty -w -n shell 'kubectl-depguard {typed}'$'\\t\\x14'\n"));
    }
    driver.push_str("zpty -w shell exit\nwhile zpty -r shell line; do :; done\n");
    let driver_file = scene.folder.path().join("driver.zsh");
    std::fs::write(&driver_file, driver).unwrap();
    let Some(said) = scene.run("timeout", &["60", "zsh", "-f", driver_file.to_str().unwrap()]) else { return };
    let lines = std::fs::read_to_string(&out).unwrap_or(said);
    let lines: Vec<_> = lines.lines().map(str::trim).collect();
    let expected: Vec<_> = LINES.iter().map(|(typed, completed)| whole(typed, completed)).collect();
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn fish_completes() {
    let scene = Scene::start().await;
    let script = scene.script("fish").await;
    for (typed, completed) in LINES {
        let line = format!("source {script}; complete -C 'kubectl-depguard {typed}'");
        let Some(out) = scene.run("fish", &["--no-config", "-c", &line]) else { return };
        let words: Vec<_> = out.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        assert_eq!(words, [completed], "{typed}");
    }
}

/// Returns the line with its last word completed.
fn whole(typed: &str, completed: &str) -> String {
    let before = typed.rsplit_once(' ').map(|(before, _)| format!("{before} ")).unwrap_or_default();
    format!("kubectl-depguard {before}{completed}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_lets_kubectl_and_the_shells_complete() {
    let scene = Scene::start().await;
    for _ in 0..2 {
        let said = scene.run(plugin(&scene).as_str(), &["completion", "--install", "fish"]).unwrap();
        assert!(said.contains(&format!("wrote {}", scene.bin().join(FOR_KUBECTL).display())), "{said}");
    }
    let installed = scene.bin().join(FOR_KUBECTL);
    assert_eq!(std::fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o755);
    let fish = scene.folder.path().join(".config/fish/completions/kubectl-depguard.fish");
    assert_eq!(std::fs::read_to_string(fish).unwrap(), depguard(&["completion", "fish"]).await.well());
    if let Some(out) = scene.run("fish", &["-c", "complete -C 'kubectl-depguard why configmaps web-e'"]) {
        assert!(out.starts_with("web-env"), "{out}");
    }
    for (typed, completed) in LINES {
        let words: Vec<_> = ["__complete", "depguard"].into_iter().chain(typed.split(' ')).collect();
        let Some(out) = scene.run("kubectl", &words) else { return };
        assert!(
            out.starts_with(&format!("{completed}\t")) || out.starts_with(&format!("{completed}\n")),
            "{typed}: {out}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_replaces_no_file_of_others() {
    let scene = Scene::start().await;
    let program = plugin(&scene);
    let install = |shell: &str| {
        let ran = scene.output(&program, &["completion", "--install", shell]).unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let foreign = scene.bin().join(FOR_KUBECTL);
    std::fs::write(&foreign, "#!/bin/sh\necho mine\n").unwrap();
    let (code, said) = install("zsh");
    assert!(code == Some(2) && said.contains("this command did not write it"), "{said}");
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "#!/bin/sh\necho mine\n");

    // A link to the plugin is what the documentation said before; it is replaced, and not the plugin.
    std::fs::remove_file(&foreign).unwrap();
    symlink(scene.bin().join(PROGRAM), &foreign).unwrap();
    let (code, said) = install("zsh");
    assert!(code == Some(0) && said.contains("site-functions"), "{said}");
    assert!(scene.bin().join(PROGRAM).is_symlink() && !foreign.is_symlink());

    let script = scene.folder.path().join(".local/share/bash-completion/completions/kubectl-depguard");
    std::fs::create_dir_all(script.parent().unwrap()).unwrap();
    std::fs::write(&script, "# mine\n").unwrap();
    let (code, said) = install("bash");
    assert!(code == Some(2) && said.contains("this command did not write it"), "{said}");
    let (code, said) = install("elvish");
    assert!(code == Some(2) && said.contains("kubectl depguard completion elvish"), "{said}");
}

fn plugin(scene: &Scene) -> String {
    scene.bin().join(PROGRAM).to_str().unwrap().to_owned()
}
