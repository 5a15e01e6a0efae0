//! Log lines about a watch that fails and is well again.

use depguard_kcp::cli::{LogFormat, to_writer};
use depguard_testbed::LogBuffer;

use super::*;

/// Returns the lines that have all these parts.
fn lines(log: &LogBuffer, parts: &[&str]) -> Vec<String> {
    log.lines().into_iter().filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

#[tokio::test]
async fn a_watch_that_fails_is_logged_once_and_so_is_its_end() {
    let log = LogBuffer::default();
    let _guard = to_writer(LogFormat::Text, "info", log.writer());
    let mut setting = start(ControlPlane::Kcp, one_shard()).await;
    setting.until_rules(&["c1/r", "c2/r"]).await;
    let failed = ["WARN", "not followed any more: ", "503 ServiceUnavailable: later", "resource=\"dependencyrules\""];
    let well = ["INFO", "followed again", "resource=\"dependencyrules\""];
    assert!(lines(&log, &["followed"]).is_empty(), "{:?}", log.lines());
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
        assert_eq!((lines(&log, &failed).len(), lines(&log, &well).len()), (round, round - 1), "{:?}", log.lines());

        let name = format!("r{round}");
        setting.world.list(&at("a", RULES), &[rule("c2", &name)]);
        setting.until_rules(&[&format!("c2/{name}")]).await;
        assert_eq!((lines(&log, &failed).len(), lines(&log, &well).len()), (round, round), "{:?}", log.lines());
    }
}
