//! `ui`, asked by a program and by a browser.

use std::ffi::OsString;
use std::path::Path;

use kubectl_depguard::{Terminal, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::eventually;
use crate::page::chromium::Chromium;
use crate::tool::{depguard, write};

const OBJECTS: &str = r#"
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: vms}, spec: {
  dependent: {group: c.example.com, version: v1, kind: VM, resource: vms},
  dependencies: [{group: n.example.com, version: v1, kind: Net, resource: nets, fieldRef: {path: .spec.net}}]}}
---
{apiVersion: n.example.com/v1, kind: Net, metadata: {name: a}}
---
{apiVersion: c.example.com/v1, kind: VM, metadata: {name: m}, spec: {net: a}}
"#;

/// Serves the page while `check` runs, which gets its address.
async fn while_served(args: &[&str], check: impl AsyncFnOnce(String)) {
    let (mut terminal, captured) = Terminal::captured("");
    let args = ["kubectl-depguard", "ui"].iter().chain(args).map(OsString::from);
    let checked = async {
        let address = eventually("the address is printed", async || {
            captured.out().lines().next().map(str::to_owned).ok_or_else(|| captured.err())
        });
        check(address.await).await;
    };
    tokio::select! {
        status = run(args, &mut terminal) => panic!("{status:?}: {}", captured.err()),
        () = checked => {}
    }
}

/// Sends a request, and returns the whole response.
async fn ask(address: &str, path: &str, headers: &str) -> String {
    let host = address.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let headers = if headers.contains("Host:") { headers.to_owned() } else { format!("Host: {host}\r\n{headers}") };
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8(response).unwrap()
}

/// Exchanges the token of the address for a cookie, as a browser does. Returns the path of the page, too.
async fn cookie(address: &str) -> (String, String) {
    let path = &address[address.rfind('/').unwrap()..];
    let response = ask(address, path, "").await;
    assert!(response.starts_with("HTTP/1.1 303"), "{response}");
    let header = |name| response.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    (format!("Cookie: {}\r\n", header("set-cookie: ").split(';').next().unwrap()), header("location: ").to_owned())
}

#[tokio::test]
async fn only_who_has_the_address_gets_the_page_and_no_other_site_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", OBJECTS);
    while_served(&["-f", file.to_str().unwrap()], async |address| {
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        for (headers, status) in [
            ("", "401"),
            ("Host: evil.example.com\r\n", "421"),
            ("Origin: https://evil.example.com\r\n", "403"),
            ("Sec-Fetch-Site: cross-site\r\n", "403"),
        ] {
            let response = ask(&address, "/", headers).await;
            assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {response}");
            assert!(!response.contains("vms.c.example.com"), "{response}");
        }
        let (cookie, page) = cookie(&address).await;
        let response = ask(&address, &page, &cookie).await;
        assert!(response.starts_with("HTTP/1.1 200") && response.contains("vms.c.example.com"), "{response}");
        let (head, _) = response.split_once("\r\n\r\n").unwrap();
        for header in ["cache-control: no-store", "x-frame-options: DENY", "frame-ancestors 'none'", "nosniff"] {
            assert!(head.contains(header), "{header} in {head}");
        }
        assert!(!head.contains("access-control-allow"), "{head}");
        let response = ask(&address, &page, &format!("{cookie}Sec-Fetch-Site: cross-site\r\n")).await;
        assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_cluster_is_on_the_page_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], \
                      clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}";
    let file = write(folder.path(), "kubeconfig", kubeconfig);
    while_served(&["--kubeconfig", file.to_str().unwrap()], async |address| {
        let (cookie, page) = cookie(&address).await;
        let response = ask(&address, &page, &cookie).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        assert!(response.contains(r#""failure":{"message":""#), "{response}");
    })
    .await;
}

#[tokio::test]
async fn a_browser_shows_the_page_and_a_refresh_reads_anew() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", OBJECTS);
    while_served(&["-f", file.to_str().unwrap()], async |address| {
        let folder = folder.path().to_owned();
        let browsed = tokio::task::spawn_blocking(move || browse(&address, &folder));
        browsed.await.unwrap();
    })
    .await;
}

fn browse(address: &str, folder: &Path) {
    let Some(mut browser) = Chromium::start() else { return };
    browser.open(address);
    browser.until("document.querySelector('#panel').innerText.includes('2 objects')");
    assert_eq!(browser.evaluate("location.search"), "", "the token is in no address that is kept");
    let refresh = "document.querySelector('#refresh:not([hidden])').click()";
    let more =
        format!("{OBJECTS}---\n{{apiVersion: c.example.com/v1, kind: VM, metadata: {{name: m2}}, spec: {{net: a}}}}\n");
    write(folder, "all.yaml", &more);
    browser.evaluate(refresh);
    browser.until("document.querySelector('#panel')?.innerText.includes('3 objects') === true");
    write(folder, "all.yaml", "a: [");
    browser.evaluate(refresh);
    browser.until("document.querySelector('#panel')?.innerText.includes('Could not read the objects') === true");
    let panel = browser.text("#panel");
    assert!(panel.contains("all.yaml"), "{panel}");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
    let own = address.split("/?").next().unwrap();
    assert!(browser.requests.iter().all(|url| url.starts_with(own)), "{:?}", browser.requests);
}

#[tokio::test]
async fn a_browser_gives_no_secret_to_another_port() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", OBJECTS);
    while_served(&["-f", file.to_str().unwrap()], async |address| {
        let asked = tokio::task::spawn_blocking(move || asked_at_another_port(&address)).await.unwrap();
        for request in &asked {
            assert!(!request.to_lowercase().contains("\ncookie:"), "{request}");
            assert!(!request.contains("referer"), "{request}");
        }
    })
    .await;
}

/// Opens the page, and then another port of the host. Returns the requests that came there.
fn asked_at_another_port(address: &str) -> Vec<String> {
    let Some(mut browser) = Chromium::start() else { return Vec::new() };
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in other.incoming().map_while(Result::ok) {
            let mut request = [0; 8192];
            let read = std::io::Read::read(&mut stream, &mut request).unwrap_or_default();
            let _ = sender.send(String::from_utf8_lossy(&request[..read]).into_owned());
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nother";
            let _ = std::io::Write::write_all(&mut stream, answer);
        }
    });
    browser.open(address);
    browser.until("document.querySelector('#panel').innerText.includes('2 objects')");
    for path in ["/", "/?token=0", "/00000000000000000000000000000000"] {
        browser.open(&format!("http://127.0.0.1:{port}{path}"));
        browser.until("document.body.innerText === 'other'");
        // What the other port's page asks of the first one.
        let host = address.split("/?").next().unwrap();
        let from_there = "{credentials: 'include', mode: 'no-cors'}";
        let answer = browser.evaluate(&format!("fetch('{host}/', {from_there}).then(() => 'got', () => 'refused')"));
        assert_eq!(answer, "refused");
        // The browser logs the refusal.
        browser.errors.clear();
    }
    let asked: Vec<_> = requests.try_iter().collect();
    assert!(asked.len() >= 3, "{asked:?}");
    asked
}

#[tokio::test]
async fn standard_input_is_refused_as_no_refresh_could_read_it() {
    let refused = depguard(&["ui", "-f", "-"]).await;
    assert!(refused.err.contains("can be read only once") && refused.err.contains("graph -o html"), "{refused:?}");
}
