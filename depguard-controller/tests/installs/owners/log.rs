//! Log lines about what owners adopt and release, and about the waves of a removal.

use std::sync::{Arc, Mutex};

use depguard_kcp::cli::{LogFormat, to_writer};

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the lines of the module that carries out writes, without their times.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let module = "depguard_controller::owners::execute: ";
        let line = |line: &str| line.split_once(module).map(|(_, rest)| rest.to_owned());
        text.lines().filter_map(line).collect()
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
async fn each_adoption_release_and_wave_is_logged_by_one_line() {
    let log = Log::default();
    let writer = log.clone();
    let _guard = to_writer(LogFormat::Text, "info", move || writer.clone());
    let (bed, controller) = start().await;
    create_both(&bed, "a").await;
    bed.at("").post_json(CONFIG_MAPS, &config_map("b", &json!({"adopt": "true"}))).await.unwrap();
    let both = json!([{"apiVersion": "v1", "resource": "configmaps"}, {"apiVersion": "v1", "resource": "secrets"}]);
    bed.at("").post_json(GLOBAL, &global_owner(&both)).await.unwrap();
    until_said(&bed, "Ready", "True Ready").await;
    let maps = owners(&bed, &format!("{CONFIG_MAPS}/a")).await.pop_first().unwrap();
    let secrets = owners(&bed, &format!("{SECRETS}/a")).await.pop_first().unwrap();
    // An object may have been adopted before others of its group were seen.
    let objects_of = |message: &str, group: &str| {
        let start = format!("{message} group=\"{group}\" objects=");
        let counts = log.lines().into_iter().filter_map(|line| line.strip_prefix(&start)?.parse::<usize>().ok());
        counts.sum::<usize>()
    };
    let told = async |message: &str, group: &str, objects: usize| {
        until("it is logged", async || match objects_of(message, group) {
            found if found == objects => Ok(()),
            _ => Err(format!("{:#?}", log.lines())),
        })
        .await;
    };
    told("adopted", &maps, 2).await;
    told("adopted", &secrets, 1).await;

    bed.edit("", &format!("{CONFIG_MAPS}/b"), |object| object["metadata"]["labels"] = json!({})).await;
    until_owners(&bed, &format!("{CONFIG_MAPS}/b"), BTreeSet::is_empty).await;
    told("released", &maps, 1).await;

    bed.at("").delete(&format!("{GLOBAL}/global-owner"), Preconditions::default()).await.unwrap();
    until("it is gone", async || match bed.at("").get_json(&format!("{GLOBAL}/global-owner")).await {
        Err(error) if error.is_not_found() => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    controller.stop().await;
    let mut waves: Vec<_> = log.lines().into_iter().filter(|line| line.starts_with("wave ")).collect();
    waves.sort();
    let wave = |number: usize| {
        [
            format!("wave {number} of 2: 1 object is left owner=\"global-owner\" reason=\"WaveBegun\""),
            format!("wave {number} of 2: no objects are left owner=\"global-owner\" reason=\"WaveDone\""),
        ]
    };
    assert_eq!(waves, [wave(1), wave(2)].concat());
}
