//! Binary, as an operator runs it.

use std::process::{Command, Output};

fn run(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_depguard-webhook"));
    command.args(flags).env_remove("KUBECONFIG").env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn help_names_every_flag() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    for flag in [
        "--control-plane",
        "--api-export-name",
        "--kubeconfig",
        "--kcp-base-host",
        "--webhook-port",
        "--tls-cert-dir",
        "--health-probe-bind-address",
        "--metrics-bind-address",
        "--log-format",
        "--read-through",
        "--client-ca",
        "--path-key-file",
        "--shutdown-delay",
        "--shutdown-grace",
        "--override-users",
        "--override-groups",
        "--zap-devel",
    ] {
        assert!(help.contains(flag), "{flag} is not in:\n{help}");
    }
    for default in ["9443", "/etc/webhook-tls", ":8081", ":8080", "dependencies.opendefense.cloud", "system:kcp:admin"]
    {
        assert!(help.contains(default), "{default} is not in:\n{help}");
    }
}

#[test]
fn what_keeps_it_from_starting_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let written = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1/clusters/root"}}],
        "users": [{"name": "a", "user": {"token": "t"}}]}"#;
    std::fs::write(&kubeconfig, written).unwrap();
    let (kubeconfig, missing) = (kubeconfig.to_str().unwrap(), folder.path().join("none"));
    let missing = missing.to_str().unwrap();
    for (flags, said) in [
        (["--kubeconfig", missing, "--tls-cert-dir=."], "cannot use the kubeconfig"),
        (["--kubeconfig", kubeconfig, "--tls-cert-dir=no-such-folder"], "cannot read `no-such-folder/tls.crt`"),
    ] {
        let output = run(&flags);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("depguard-webhook: ") && error.contains(said), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn the_log_is_written_as_asked_for() {
    let warned = |flag: &str| {
        let output = run(&[flag, "--zap-devel", "--kubeconfig=no-such-file"]);
        let log = String::from_utf8(output.stderr).unwrap();
        log.lines().find(|line| line.contains("--zap-*")).unwrap().to_owned()
    };
    let line: serde_json::Value = serde_json::from_str(&warned("--log-format=json")).unwrap();
    assert_eq!(line["level"], "WARN");
    assert!(line["message"].as_str().unwrap().starts_with("the --zap-* flags"), "{line}");
    let line = warned("--log-format=text");
    assert!(line.contains(" WARN ") && !line.contains(['{', '\u{1b}']), "{line:?}");
}

#[test]
fn a_wrong_flag_says_what_is_right() {
    let output = run(&["--shutdown-grace=0s"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("write it as `35s` or `1m30s`, between 1s and 10m"), "{error}");
}
