use std::cell::{Cell, RefCell};
use std::pin::pin;

use tokio::time::{sleep, timeout};

use super::*;

/// Mark, as looks find it, and the times of the looks.
struct Server {
    found: RefCell<Option<Result<bool, String>>>,
    /// Time from the look to its answer.
    delay: Cell<Duration>,
    looks: RefCell<Vec<Instant>>,
}

impl Server {
    fn new() -> Self {
        Self { found: RefCell::new(Some(Ok(false))), delay: Cell::default(), looks: RefCell::default() }
    }

    /// Answers looks like this from now on; not at all if nothing is given.
    fn answers(&self, found: Option<Result<bool, String>>) {
        *self.found.borrow_mut() = found;
    }

    async fn look(&self) -> Result<bool, String> {
        self.looks.borrow_mut().push(Instant::now());
        let found = self.found.borrow().clone();
        sleep(self.delay.get()).await;
        match found {
            Some(found) => found,
            None => std::future::pending().await,
        }
    }
}

/// Carries out `scene` while the looks go on.
async fn beside(server: &Server, scene: impl AsyncFnOnce(&Looks, &mut watch::Receiver<Option<String>>)) {
    let looks = Looks::new();
    let (tell, mut withheld) = watch::channel(Some("unknown".to_owned()));
    let watching = pin!(watch_uninstall(|| server.look(), &looks, &tell));
    tokio::select! {
        () = watching => panic!("the looks ended"),
        () = async {
            withheld.wait_for(Option::is_none).await.unwrap();
            sleep(MAX_LOOK_AGE).await;
            scene(&looks, &mut withheld).await;
        } => {}
    }
}

/// Begins a round, and returns what keeps it going and the time at which it may write; `None` if it must not begin.
async fn begin(looks: &Looks, withheld: &mut watch::Receiver<Option<String>>) -> Option<(RoundUnderWay, Instant)> {
    let round = looks.begin_round();
    tokio::select! {
        biased;
        _ = withheld.wait_for(Option::is_some) => None,
        () = looks.fresh() => Some((round, Instant::now())),
    }
}

#[tokio::test(start_paused = true)]
async fn at_rest_nobody_looks_and_a_round_looks_before_it_begins() {
    let server = Server::new();
    beside(&server, async |looks, withheld| {
        let before = server.looks.borrow().len();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(server.looks.borrow().len(), before);
        let (round, began) = begin(looks, withheld).await.unwrap();
        assert_eq!(server.looks.borrow().last(), Some(&began));
        // The looks go on while it lasts, and end with it.
        sleep(MAX_LOOK_AGE * 10).await;
        assert!(server.looks.borrow().last().unwrap().elapsed() <= REPEAT);
        drop(round);
        sleep(REPEAT).await;
        let before = server.looks.borrow().len();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(server.looks.borrow().len(), before);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn during_an_uninstall_no_round_begins_and_the_end_is_seen() {
    let server = Server::new();
    beside(&server, async |looks, withheld| {
        server.answers(Some(Ok(true)));
        assert!(begin(looks, withheld).await.is_none());
        // A look that fails does not end an uninstall.
        server.answers(Some(Err("down".to_owned())));
        sleep(MAX_LOOK_AGE * 10).await;
        assert_eq!(withheld.borrow().as_deref(), Some(UNINSTALLING));
        // No round asks, and the end is seen all the same.
        server.answers(Some(Ok(false)));
        withheld.wait_for(Option::is_none).await.unwrap();
        assert!(begin(looks, withheld).await.is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_round_never_writes_by_a_look_that_is_too_old() {
    let failing = [Some(Ok(true)), Some(Err("down".to_owned())), None];
    // The answer changes at any time of a round, which begins at any time after a look.
    for found in failing {
        for step in 0..80 {
            let server = Server::new();
            let good = Cell::new(None);
            beside(&server, async |looks, withheld| {
                drop(begin(looks, withheld).await.unwrap());
                sleep(Duration::from_millis(50) * (step / 2)).await;
                let (_round, _) = begin(looks, withheld).await.unwrap();
                sleep(Duration::from_millis(130) * (step % 31)).await;
                good.set(server.looks.borrow().last().copied());
                server.answers(found.clone());
                assert!(
                    timeout(MAX_LOOK_AGE * 2, withheld.wait_for(Option::is_some)).await.is_ok(),
                    "{found:?} {step}"
                );
                // The timer of tokio is exact to a millisecond.
                assert!(good.get().unwrap().elapsed() <= MAX_LOOK_AGE + Duration::from_millis(2), "{found:?} {step}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_failed_look_stops_no_round() {
    let server = Server::new();
    beside(&server, async |looks, withheld| {
        let (_round, _) = begin(looks, withheld).await.unwrap();
        let before = server.looks.borrow().len();
        server.answers(Some(Err("down".to_owned())));
        while server.looks.borrow().len() == before {
            sleep(Duration::from_millis(10)).await;
        }
        server.answers(Some(Ok(false)));
        assert!(timeout(MAX_LOOK_AGE * 2, withheld.wait_for(Option::is_some)).await.is_err());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_round_waits_for_a_look_that_is_repeated() {
    let server = Server::new();
    for found in [Some(Err("down".to_owned())), None] {
        beside(&server, async |looks, withheld| {
            server.answers(found);
            let mut beginning = pin!(begin(looks, withheld));
            assert!(timeout(REPEAT, &mut beginning).await.is_err());
            server.answers(Some(Ok(false)));
            assert!(beginning.await.is_some());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_lasts_however_slow_the_answers_are_and_ends_in_time() {
    for found in [Some(Ok(true)), Some(Err("down".to_owned())), None] {
        for step in 0..30 {
            let server = Server::new();
            server.delay.set(Duration::from_secs(2));
            beside(&server, async |looks, withheld| {
                let (_round, _) = begin(looks, withheld).await.unwrap();
                // Ten minutes without an answer in less than two seconds.
                let long = Duration::from_secs(600) + Duration::from_millis(50) * step;
                assert!(timeout(long, withheld.wait_for(Option::is_some)).await.is_err());
                let sent = server.looks.borrow().last().copied().unwrap();
                server.answers(found.clone());
                withheld.wait_for(Option::is_some).await.unwrap();
                assert!(sent.elapsed() <= MAX_LOOK_AGE + Duration::from_millis(2), "{found:?} {step}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_each_answer_is_too_late_no_round_begins() {
    let server = Server::new();
    beside(&server, async |looks, withheld| {
        server.delay.set(FRESH + Duration::from_millis(100));
        assert!(begin(looks, withheld).await.is_none());
        assert!(withheld.borrow().as_ref().unwrap().ends_with("the API server did not answer in time"));
    })
    .await;
}
