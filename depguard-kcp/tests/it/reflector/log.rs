//! Log lines about a watch that fails and is well again.

use depguard_kcp::cli::{LogFormat, to_writer};

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the lines that have all these parts.
    fn lines(&self, parts: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned).collect()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_watch_that_fails_is_logged_once_and_so_is_its_end() {
    let log = Log::default();
    let writer = log.clone();
    let _guard = to_writer(LogFormat::Text, "info", move || writer.clone());
    let mut setting = start(ControlPlane::Kcp, one_shard()).await;
    setting.until_rules(&["c1/r", "c2/r"]).await;
    let failed = ["WARN", "not followed any more: ", "503 ServiceUnavailable: later", "resource=\"dependencyrules\""];
    let well = ["INFO", "followed again", "resource=\"dependencyrules\""];
    assert!(log.lines(&["followed"]).is_empty(), "{:?}", log.lines(&[]));
    for round in 1..=2 {
        let status = json!({"kind": "Status", "reason": "ServiceUnavailable", "message": "later", "code": 503});
        setting.world.respond(&at("a", RULES), 503, status);
        setting.world.expire(&at("a", RULES)).await;
        let failing = |state: &Snapshot| state.failing().is_some_and(|failure| failure.why.contains("503"));
        setting.until("failing", failing).await;
        let before = lists(&setting.server, "a");
        // However often the list fails.
        while lists(&setting.server, "a") < before + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((log.lines(&failed).len(), log.lines(&well).len()), (round, round - 1), "{:?}", log.lines(&[]));

        let name = format!("r{round}");
        setting.world.list(&at("a", RULES), &[rule("c2", &name)]);
        setting.until_rules(&[&format!("c2/{name}")]).await;
        assert_eq!((log.lines(&failed).len(), log.lines(&well).len()), (round, round), "{:?}", log.lines(&[]));
    }
}
