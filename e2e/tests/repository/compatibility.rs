//! docs/compatibility.md: the versions are those with which `.ci/run` tests.

const PAGE: &str = include_str!("../../../docs/compatibility.md");
const SERVERS: &str = include_str!("../../servers/go.mod");
const CLIENTS: &str = include_str!("../../helm/go.mod");
const RUST: &str = include_str!("../../../rust-toolchain.toml");
const CHART: &str = include_str!("../../../charts/depguard/Chart.yaml");

/// Returns the version of a Go module, as in `module v1.2.3`.
fn module<'a>(modules: &'a str, name: &str) -> Option<&'a str> {
    let version = modules.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" v"))?;
    version.split_whitespace().next()
}

/// Returns the versions with which the tests run, in the order of the page's first table.
fn tested() -> Vec<String> {
    // kubectl 1.37.1 is the module v0.37.1.
    let kubectl = module(CLIENTS, "k8s.io/kubectl").unwrap().replacen('0', "1", 1);
    let rust = RUST.split("channel = \"").nth(1).unwrap().split('"').next().unwrap();
    let servers = ["k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"].map(|name| module(SERVERS, name).unwrap());
    let helm = module(CLIENTS, "helm.sh/helm/v4").unwrap();
    [servers[0], servers[1], helm, &kubectl, rust].map(str::to_owned).to_vec()
}

/// Returns the second cells of the table under a heading.
fn versions(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.split(" | ").nth(1).unwrap().to_owned()).collect()
}

#[test]
fn the_versions_in_the_page_are_those_of_the_tests() {
    assert_eq!(versions(PAGE, "At each change"), tested());
    assert_ne!(versions(&PAGE.replace("1.36.3", "1.36.4"), "At each change"), tested());
    let least = CHART.split("kubeVersion: \">=").nth(1).unwrap().split(".0-0").next().unwrap();
    assert!(PAGE.contains(&format!("The chart refuses Kubernetes below {least} ")), "{least}");
}

/// The README names the server as well.
#[test]
fn the_readme_names_the_same_server() {
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&format!("kube-apiserver {}", tested()[0])));
    assert!(readme.contains("(docs/compatibility.md)"));
}
