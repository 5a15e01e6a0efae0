//! Log lines about what owners adopt and release, and about the waves of a removal.

use depguard_kcp::cli::{LogFormat, to_writer};
use depguard_testbed::LogBuffer;

use super::*;

/// Returns the lines of the module that carries out writes, without their times.
fn lines(log: &LogBuffer) -> Vec<String> {
    let module = "depguard_controller::owners::execute: ";
    log.lines().iter().filter_map(|line| line.split_once(module).map(|(_, rest)| rest.to_owned())).collect()
}

#[tokio::test]
async fn each_adoption_release_and_wave_is_logged_by_one_line() {
    let log = LogBuffer::default();
    let _guard = to_writer(LogFormat::Text, "info", log.writer());
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
        let counts = lines(&log).into_iter().filter_map(|line| line.strip_prefix(&start)?.parse::<usize>().ok());
        counts.sum::<usize>()
    };
    let told = async |message: &str, group: &str, objects: usize| {
        until("it is logged", async || match objects_of(message, group) {
            found if found == objects => Ok(()),
            _ => Err(format!("{:#?}", lines(&log))),
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
    let mut waves: Vec<_> = lines(&log).into_iter().filter(|line| line.starts_with("wave ")).collect();
    waves.sort();
    let wave = |number: usize| {
        [
            format!("wave {number} of 2: 1 object is left owner=\"global-owner\" reason=\"WaveBegun\""),
            format!("wave {number} of 2: no objects are left owner=\"global-owner\" reason=\"WaveDone\""),
        ]
    };
    assert_eq!(waves, [wave(1), wave(2)].concat());
}
