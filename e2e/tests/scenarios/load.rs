//! Requests without a pause, and the checker of their answers.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use depguard_e2e::{Cast, Outcome, Reply, World, ensure, eventually};
use futures::future::try_join_all;

use crate::races::{Tally, head_start, machine, one_pair};

/// Number of VPCs that a machine refers to all the time. Each has a client that deletes it again and again.
const REFERENCED: usize = 4;
/// Number of clients that create a VPC and a machine and delete both, and of clients that create machines without a VPC.
const CLIENTS: usize = 2;
/// Number of clients that race a creation and a deletion.
const RACING: usize = 4;
/// Decisions of each kind that must come before a state of an upgrade has been seen.
const SEEN: usize = 5;

/// Counts of the answers to one kind of request.
#[derive(Debug, Default)]
struct Answers {
    requests: Cell<usize>,
    /// Requests that depguard refused for the right reason.
    refused: Cell<usize>,
    /// Requests that were not carried out, because something could not be found out: the client comes again.
    put_off: Cell<usize>,
}

/// Requests that go on until they are stopped.
pub(crate) struct Load<'w> {
    world: &'w World,
    cast: &'w Cast,
    /// Deletions of VPCs to which a machine refers.
    referenced: Answers,
    /// Creations of machines whose VPC doesn't exist.
    missing: Answers,
    /// Requests that must pass in the end.
    free: Answers,
    /// VPCs and machines that were created, and deleted in the right order.
    rounds: Cell<usize>,
    /// Requests that were carried out and must not be: the first ones, in words.
    wrong: RefCell<Vec<String>>,
    /// Number of clients that race a creation and a deletion, and their results.
    racing: usize,
    pairs: RefCell<Tally>,
    is_stopped: Cell<bool>,
}

impl fmt::Display for Load<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { referenced, missing, free, rounds, wrong, racing, pairs, .. } = self;
        write!(
            f,
            "{} deletions of referenced VPCs: {} refused, {} put off; {} machines without their VPC: {} refused, {} \
             put off; {} VPCs and machines came and went by {} requests, {} of them put off; {} wrong",
            referenced.requests.get(),
            referenced.refused.get(),
            referenced.put_off.get(),
            missing.requests.get(),
            missing.refused.get(),
            missing.put_off.get(),
            rounds.get(),
            free.requests.get(),
            free.put_off.get(),
            wrong.borrow().len(),
        )?;
        if *racing > 0 { write!(f, "; {}", pairs.borrow()) } else { Ok(()) }
    }
}

impl Answers {
    /// Counts an answer to a request that depguard must refuse, and returns true unless the request was carried out.
    fn take(&self, reply: &Reply, reason: &str) -> bool {
        add_one(&self.requests);
        match reply.status {
            403 if reply.message().contains(reason) => add_one(&self.refused),
            403 | 429 | 500 | 503 | 504 => add_one(&self.put_off),
            _ => return false,
        }
        true
    }
}

fn add_one(count: &Cell<usize>) {
    count.set(count.get() + 1);
}

impl<'w> Load<'w> {
    /// Prepares the requests. The caller has made the rule, and depguard enforces it.
    pub(crate) async fn new(world: &'w World, cast: &'w Cast) -> Outcome<Load<'w>> {
        for name in (0..REFERENCED).map(referenced) {
            cast.consumer.create_target(&cast.vpc, &name).await?;
            // A version that interlocks puts references off until its registers are open.
            eventually("a machine refers to the VPC", world.patience(), async || {
                cast.consumer.create_dependent(&cast.vm, &name, &name).await
            })
            .await?;
        }
        let [missing, free, deletions] = [(); 3].map(|()| Answers::default());
        let (rounds, wrong, is_stopped) = (Cell::default(), RefCell::default(), Cell::new(false));
        let pairs = RefCell::default();
        Ok(Load { world, cast, referenced: deletions, missing, free, rounds, wrong, racing: 0, pairs, is_stopped })
    }

    /// Has clients race creations and deletions, too. No pair may leave a machine without its VPC.
    pub(crate) fn racing(self) -> Self {
        Load { racing: RACING, ..self }
    }

    /// Sends requests until [`Load::stop`].
    pub(crate) async fn run(&self) -> Outcome {
        let deletions = try_join_all((0..REFERENCED).map(|number| self.delete_referenced(number)));
        let lives = try_join_all((0..CLIENTS).map(|client| self.create_and_delete(client)));
        let missing = try_join_all((0..CLIENTS).map(|client| self.create_without_target(client)));
        let races = async {
            let head_start = head_start(self.cast, &self.cast.consumer.api, "pair").await?;
            try_join_all((0..self.racing).map(|client| self.race(client, head_start))).await
        };
        futures::try_join!(deletions, lives, missing, races).map(drop)
    }

    /// Ends all requests, each after its answer.
    pub(crate) fn stop(&self) {
        self.is_stopped.set(true);
    }

    /// Waits until depguard has refused some more deletions of referenced VPCs and, if `all_pass`, has decided some more
    /// requests of each other kind.
    pub(crate) async fn goes_on(&self, when: &str, all_pass: bool) -> Outcome {
        let seen = || [self.referenced.refused.get(), self.missing.refused.get(), self.rounds.get()];
        self.until_more(&format!("requests are decided {when}"), seen, if all_pass { 3 } else { 1 }).await
    }

    /// Waits until some more requests of each kind that a rule is about were put off.
    pub(crate) async fn is_put_off(&self, when: &str) -> Outcome {
        let seen = || [&self.referenced, &self.missing, &self.free].map(|answers| answers.put_off.get());
        self.until_more(&format!("requests are put off {when}"), seen, 3).await
    }

    /// Waits until the first `needed` counts have grown.
    async fn until_more(&self, what: &str, seen: impl Fn() -> [usize; 3], needed: usize) -> Outcome {
        let before = seen();
        eventually(what, self.world.patience(), async || {
            let enough = before.iter().zip(seen()).take(needed).all(|(before, now)| now >= before + SEEN);
            ensure(enough, || format!("{before:?} became {:?}: {self}", seen()))
        })
        .await
    }

    /// Fails if any request was carried out that must not be.
    pub(crate) fn check(&self) -> Outcome {
        let wrong = self.wrong.borrow();
        ensure(wrong.is_empty(), || format!("{} requests passed: {}", wrong.len(), wrong.join("; ")))
    }

    async fn delete_referenced(&self, number: usize) -> Outcome {
        let Cast { consumer, vpc, .. } = self.cast;
        let name = referenced(number);
        while !self.is_stopped.get() {
            let reply = consumer.api.delete(&consumer.object(vpc, &name)).await?;
            if !self.referenced.take(&reply, "still referenced by") {
                self.is_wrong(&name, "was deleted", &reply);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn create_without_target(&self, client: usize) -> Outcome {
        for round in 0.. {
            if self.is_stopped.get() {
                break;
            }
            let name = format!("dangling-{client}-{round}");
            let reply = self.create_machine(&name, "nowhere").await?;
            if !self.missing.take(&reply, "not found") {
                self.is_wrong(&name, "was created", &reply);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Creates a VPC and a machine, and deletes both again and again: the VPC must not go before the machine.
    async fn create_and_delete(&self, client: usize) -> Outcome {
        let Cast { consumer, vpc, vm, .. } = self.cast;
        for round in 0.. {
            let name = format!("free-{client}-{round}");
            let [vpc_path, vm_path] = [vpc, vm].map(|kind| consumer.object(kind, &name));
            consumer.create_target(vpc, &name).await?;
            if !self.until_passed(async || self.create_machine(&name, &name).await).await? {
                break;
            }
            let reply = consumer.api.delete(&vpc_path).await?;
            if !self.referenced.take(&reply, "still referenced by") {
                self.is_wrong(&name, "was deleted", &reply);
                return Ok(());
            }
            for path in [vm_path, vpc_path] {
                if !self.until_passed(async || consumer.api.delete(&path).await).await? {
                    return Ok(());
                }
            }
            add_one(&self.rounds);
        }
        Ok(())
    }

    async fn race(&self, client: usize, head_start: Duration) -> Outcome {
        for round in 0.. {
            if self.is_stopped.get() {
                break;
            }
            let name = format!("pair-{client}-{round}");
            let pair = one_pair(self.cast, &self.cast.consumer.api, name.clone(), round, head_start).await?;
            self.pairs.borrow_mut().take(&pair);
            if pair.is_dangling {
                self.wrong.borrow_mut().push(format!("{name} refers to nothing ({:?})", pair.statuses));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Repeats a request until it is carried out, and returns false if the requests are stopped before.
    async fn until_passed(&self, request: impl AsyncFn() -> Outcome<Reply>) -> Outcome<bool> {
        while !self.is_stopped.get() {
            let reply = request().await?;
            add_one(&self.free.requests);
            match reply.status {
                200..300 => return Ok(true),
                403 | 429 | 500 | 503 | 504 => add_one(&self.free.put_off),
                _ => return Err(reply.unexpected("a success, or a refusal")),
            }
        }
        Ok(false)
    }

    async fn create_machine(&self, name: &str, target: &str) -> Outcome<Reply> {
        let Cast { consumer, vm, .. } = self.cast;
        consumer.api.post(&vm.collection(&consumer.namespace), &machine(self.cast, name, target)).await
    }

    fn is_wrong(&self, name: &str, what: &str, reply: &Reply) {
        self.wrong.borrow_mut().push(format!("{name} {what} ({}: {})", reply.status, reply.message()));
    }
}

fn referenced(number: usize) -> String {
    format!("referenced-{number}")
}
