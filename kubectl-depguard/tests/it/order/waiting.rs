//! `order --delete` waits until objects are gone: by watches, and by reading the objects where watches fail.

use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;

use crate::bed::eventually;
use crate::order::unguarded::Unguarded;

/// Path of the machine that has a finalizer, as a read asks for it.
const READ: &str = "/namespaces/red/virtualmachines/m1";
const WATCH: &str = "watch=true";

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_that_an_object_is_gone() {
    let stage = Unguarded::set().await;
    let (deleted, ()) = tokio::join!(stage.delete_base(&["--timeout=20s"]), async {
        stage.until_going().await;
        let watches = stage.scene.inject(Fault::Latency(std::time::Duration::ZERO), When::always().path(WATCH));
        eventually("it watches", async || if stage.scene.hits(watches) > 0 { Ok(()) } else { Err(()) }).await;
        // Nobody can read the machine any more.
        stage.scene.fail(When::always().method("GET").path(READ));
        stage.release().await;
    });
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_watches_fail_the_objects_are_read() {
    for (fault, when) in [
        (Fault::WatchDropped, When::always().path("virtualmachines")),
        (Fault::WatchExpired, When::always().path("virtualmachines")),
        (Fault::Forbidden, When::always().path(WATCH)),
        (Fault::InternalError, When::always().path(WATCH)),
    ] {
        let stage = Unguarded::set().await;
        let fails = stage.scene.inject(fault, when);
        let (deleted, ()) = tokio::join!(stage.delete_base(&["--timeout=20s"]), async {
            eventually("a watch failed", async || if stage.scene.hits(fails) > 0 { Ok(()) } else { Err(()) }).await;
            stage.release().await;
        });
        assert_eq!(deleted.status, ExitStatus::Well, "{fault:?} {deleted:?}");
        stage.there_are(&["b1", "free", "m3"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_forbidden_is_not_asked_for_again() {
    let stage = Unguarded::set().await;
    let forbidden = stage.scene.inject(Fault::Forbidden, When::always().path(WATCH));
    let reads = stage.scene.inject(Fault::Latency(std::time::Duration::ZERO), When::always().path(READ));
    let (deleted, ()) = tokio::join!(stage.delete_base(&["--timeout=10m"]), async {
        eventually("it reads", async || if stage.scene.hits(reads) > 6 { Ok(()) } else { Err(()) }).await;
        assert_eq!(stage.scene.hits(forbidden), 1);
        stage.release().await;
    });
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
}
