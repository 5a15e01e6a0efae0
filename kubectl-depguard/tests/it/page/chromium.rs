//! Chromium, driven by the DevTools protocol over its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

/// Patience of one step, however long a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Browser with one page.
pub(crate) struct Chromium {
    process: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Errors that the page logged, and addresses that it asked for.
    pub(crate) errors: Vec<String>,
    pub(crate) requests: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts the browser; `None`, with a line that says so, where there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = find() else {
            eprintln!("skipped: no chromium on PATH (apt-get install chromium)");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on the descriptors 3 and 4, which the shell makes of the standard ones.
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 >/dev/null"#])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(read) = serde_json::from_slice(&message) else { return };
                if sender.send(read).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let stdin = process.stdin.take();
        let (errors, requests) = (Vec::new(), Vec::new());
        let mut browser =
            Self { process, stdin, messages, session: None, next: 0, errors, requests, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.size(1280, 800);
        Some(browser)
    }

    /// Opens an address, and waits until the page is there.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": url}));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Opens a file with this content.
    pub(crate) fn open_file(&mut self, file: &Path) {
        self.open(&format!("file://{}", file.display()));
    }

    /// Evaluates an expression.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        self.evaluate_on_page(expression).unwrap_or_else(|gone| panic!("{expression}: {gone}"))
    }

    /// Evaluates an expression; an error if the page goes before it answers.
    fn evaluate_on_page(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.attempt("Runtime.evaluate", &params)?;
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        Ok(result["result"]["value"].clone())
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let selector = json!(selector);
        self.evaluate(&format!("document.querySelector({selector})?.innerText ?? ''")).as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true, on this page or on one that the browser goes to meanwhile.
    pub(crate) fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate_on_page(expression) != Ok(Value::Bool(true)) {
            let page = "document.body.innerText.slice(0, 2000)";
            assert!(self.errors.is_empty(), "{expression}: {:#?}", self.errors);
            assert!(Instant::now() < end, "never true: {expression}, on {:?}", self.evaluate_on_page(page));
            // The browser paces the loop: it answers once it has drawn a frame, or once the page is gone.
            let _ = self
                .evaluate_on_page("new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)))");
        }
    }

    /// Presses a key, as a user does.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "Tab" => (9, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            typed => (0, typed),
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let event = |kind: &str| json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &event(down));
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.press(&c.to_string());
        }
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets a preference of the user, such as `prefers-color-scheme`.
    pub(crate) fn prefer(&mut self, name: &str, value: &str) {
        self.call("Emulation.setEmulatedMedia", &json!({"features": [{"name": name, "value": value}]}));
    }

    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": false}));
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// Calls a method of the protocol, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.attempt(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls a method of the protocol, and returns its result or its error.
    fn attempt(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let (id, end) = (self.next, Instant::now() + PATIENCE);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\0").as_bytes()).unwrap();
        stdin.flush().unwrap();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = match self.messages.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended during {method}"),
            };
            if message["id"] == json!(id) {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.errors.push(params["exceptionDetails"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => self.errors.push(params["entry"].to_string()),
            "Runtime.consoleAPICalled" => self.errors.push(params.to_string()),
            "Page.javascriptDialogOpening" => self.errors.push(params.to_string()),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.extend((url != "about:blank").then(|| url.to_owned()));
            }
            _ => {}
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Without its pipe, the browser ends by itself.
        drop(self.stdin.take());
        let _ = self.process.wait();
    }
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let named = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|folder| named.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// A page that goes elsewhere takes with it the answers to what it was asked.
#[test]
fn waiting_outlives_the_page() {
    let Some(mut browser) = Chromium::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    // Each page lives for some frames, so that many of them go while the browser is asked.
    let script = "const n = Number(location.hash.slice(1)); document.title = n; \
                  if (n < 40) setTimeout(() => { location.hash = n + 1; location.reload(); }, 20)";
    std::fs::write(&file, format!("<script>{script}</script>")).unwrap();
    browser.open(&format!("file://{}#1", file.display()));
    browser.until("document.title === '40'");
}
