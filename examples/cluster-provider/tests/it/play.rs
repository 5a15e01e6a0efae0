//! Test of the play, act by act, as `cargo run -p cluster-provider-example` shows it.

use cluster_provider_example::play;

#[tokio::test(flavor = "multi_thread")]
async fn each_act_goes_as_it_says() {
    if let Err(error) = play::play(None, None).await {
        panic!("{}", error.in_full());
    }
}
