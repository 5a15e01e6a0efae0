//! The admission service: an HTTP request in, an answered AdmissionReview out.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use depguard_core::locks::{LockDecision, LockReview};
use depguard_core::{
    self as core, Decision, Evaluation, FailurePolicy, GroupResource, Home, Inquiry, OverridePolicy, RefusalCode,
    Review, canary,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use crate::body;
use crate::budget::{Budget, Size};
use crate::driver::Reads;
use crate::gauges::Queue;
use crate::gets::Gets;
use crate::locks::Locks;
use crate::lookups::Lookups;
use crate::metrics::{Metrics, Way, guards};
use crate::paths::{Asked, Door, PathKeys};
use crate::port::{Port, Writer};
use crate::rejection::Rejection;
use crate::rights::Rights;
use crate::rules::{Loaded, Rules, Snapshot};
use crate::seldom::Seldom;
use crate::source::Source;
use crate::tables::Tables;
use crate::taken::Taken;
use crate::tasks::Tasks;
use crate::{driver, gauges, owners, proof, report, respond, uid};

/// Reviews what is posted to `/validate`: a [`tower::Service`] that fits into any server, or into a provider's own.
///
/// It takes `POST /validate`, and `POST /validate/ignore` for the rules that are ignored where they fail, with an
/// `admission.k8s.io/v1` AdmissionReview as `application/json`, and answers within the caller's `?timeout=` less a
/// margin. Where the path goes on with a scope (see [`PathKeys`]), it decides only about that scope's objects. A request
/// that is no review gets a 4xx with a plain sentence; an API server then goes by the webhook's `failurePolicy`, which is
/// `Fail`. It is always ready, and cheap to clone.
///
/// What is answered besides, at paths of its own and within the same limits, is switched on by itself:
/// [locks](Self::guarding_locks), [locks of the older kind](Self::guarding_compat_locks),
/// [owners](Self::guarding_owners).
pub struct ReviewService<P: Port> {
    shared: Arc<Shared<P>>,
    doors: Doors,
}

/// Which paths are answered.
#[derive(Clone, Default)]
struct Doors {
    keys: Option<PathKeys>,
    locks: Option<Arc<Locks>>,
    compat_locks: Option<Arc<Locks>>,
    /// Who writes on owners.
    owners: Option<Arc<dyn Writer>>,
}

/// What one service takes in. See `Default` for what is usual.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The longest review, in bytes. An API server's object has at most 1.5 MiB, and a review holds it once or twice.
    pub review: usize,
    /// What all reviews under way may take up together, in bytes; further ones wait while their time lasts.
    pub reviews: usize,
    /// The reviews that may wait for an API server at once; further ones are refused at once. Those that need none are
    /// always decided.
    pub at_once: usize,
    /// What all pages of objects under way may take up together, in bytes; further ones wait while their time lasts.
    pub pages: usize,
}

/// When a review came, and when it must be answered.
#[derive(Clone, Copy)]
struct Time {
    begun: Instant,
    deadline: Instant,
}

struct Shared<P: Port> {
    reads: Reads<P>,
    rules: Rules,
    overrides: OverridePolicy,
    limits: Limits,
    reviews: Queue,
    reading: [Queue; 2],
    rights: Rights,
    metrics: Arc<Metrics>,
    log: Seldom,
}

impl<P: Port> ReviewService<P> {
    /// Decides by `rules` and by what `port` reads.
    pub fn new(port: P, rules: Rules, overrides: OverridePolicy) -> Self {
        Self::with_limits(port, rules, overrides, Limits::default())
    }

    /// The same within other limits.
    pub fn with_limits(port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        Self::among(Tasks::default(), port, rules, overrides, limits)
    }

    /// The same, where what outlives a review is counted among `tasks`.
    pub(crate) fn among(tasks: Tasks, port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        // A review that has no room even alone would wait in vain.
        let bytes = Taken::of(limits.reviews.max(limits.review));
        let reviews = Queue { name: "reviews", places: Taken::of(limits.at_once), bytes };
        let metrics = Arc::new(Metrics::default());
        let source = Arc::new(Source::new(port, Budget::new(limits.pages), Arc::clone(&metrics)));
        let reading = [Size::Small, Size::Page].map(|size| {
            let (places, bytes) = source.budget().taken(size);
            Queue { name: size.label(), places, bytes }
        });
        let reads = Reads {
            gets: Gets::new(Arc::clone(&source), tasks.clone()),
            lookups: Lookups::new(Arc::clone(&source), tasks.clone()),
            tables: Tables::new(source, tasks),
        };
        Self {
            shared: Arc::new(Shared {
                reads,
                rules,
                overrides,
                limits,
                reviews,
                reading,
                rights: Rights::default(),
                metrics,
                log: Seldom::default(),
            }),
            doors: Doors::default(),
        }
    }

    /// Adds what this service counts to a registry of `prometheus-client` 0.25: one that is read at `/metrics`, say. All
    /// names begin with `depguard_`.
    pub fn register(&self, registry: &mut Registry) {
        let Shared { metrics, rules, reviews, reading: [small, pages], .. } = &*self.shared;
        metrics.register(registry);
        gauges::of_service(registry, rules.clone(), &[reviews.clone(), small.clone(), pages.clone()]);
    }

    /// The same, where only paths are answered that one of these keys signed.
    pub fn with_path_keys(mut self, keys: PathKeys) -> Self {
        self.doors.keys = Some(keys);
        self
    }

    /// The same, where `POST /lock` is answered as well: it refuses what ObjectLocks and ClusterObjectLocks forbid, guards
    /// these, and has `writer` write the tables by which they are found.
    pub fn guarding_locks(mut self, home: Home, writer: impl Writer) -> Self {
        self.doors.locks = Some(Arc::new(Locks::of_objects(home, Arc::new(writer))));
        self
    }

    /// The same, where `POST /lock/compat` is answered as well: it refuses to change or delete an object of these kinds for
    /// which there is a `kotas.tech/v1` Lock of its name.
    pub fn guarding_compat_locks(mut self, kinds: BTreeSet<GroupResource>) -> Self {
        self.doors.compat_locks = Some(Arc::new(Locks::Compat(kinds)));
        self
    }

    /// The same, where `POST /owner` is answered as well: it refuses to delete a GlobalOwner in the foreground, and a
    /// GroupOwner that still owns. Where a GlobalOwner is deleted and what it owns is to stay, `writer` notes that on it.
    pub fn guarding_owners(mut self, writer: impl Writer) -> Self {
        self.doors.owners = Some(Arc::new(writer));
        self
    }
}

impl<P: Port> Shared<P> {
    async fn answer<B>(&self, request: Request<B>, doors: &Doors) -> Response<Full<bytes::Bytes>>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match self.review(request, doors).await {
            Ok(answer) => respond::review(answer),
            Err(rejection) => {
                let (cause, detail) = (rejection.label(), rejection.detail());
                match rejection {
                    // Nothing that an API server asks.
                    Rejection::Path | Rejection::Unsigned => tracing::debug!(cause, "a request was rejected: {detail}"),
                    _ => self.log.warn("a request was rejected", cause, &detail),
                }
                self.metrics.rejected(rejection.label());
                rejection.response()
            }
        }
    }

    async fn review<B>(&self, request: Request<B>, doors: &Doors) -> Result<Vec<u8>, Rejection>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        let asked = check(&head, doors)?;
        let deadline = begun.checked_add(core::time_to_answer(head.uri.query())).unwrap_or(begun);

        let mut bytes = body::Bytes::new(self.limits.review, self.reviews.bytes.semaphore());
        let read = timeout_at(deadline, bytes.fill(body)).await;
        if let Err(rejection) = read.map_err(|_| Rejection::Slow).and_then(|read| read.map_err(Rejection::Body)) {
            let uid = uid::of_beginning(bytes.read());
            // What it is about was not read.
            return self.refuse(rejection, uid.as_deref().map(|uid| (uid, RefusalCode::Forbidden)), asked.door);
        }
        let (bytes, time) = (bytes.read(), Time { begun, deadline });
        match (asked.door, doors.locks(asked.door), &doors.owners) {
            (Door::Locks | Door::CompatLocks, Some(locks), _) => self.by_locks(locks, bytes, &asked, time).await,
            (Door::Owners, _, Some(writer)) => self.by_owners(&**writer, bytes, &asked, time).await,
            _ => self.by_rules(bytes, &asked, time).await,
        }
    }

    async fn by_rules(&self, bytes: &[u8], asked: &Asked, time: Time) -> Result<Vec<u8>, Rejection> {
        let review = Review::parse(bytes)?;
        if let Some(inquiry) = Inquiry::of(&review, bytes)? {
            return Ok(self.rights.tell(&self.reads.gets, &self.rules, &inquiry).await);
        }
        // Where a webhook that can't be reached refuses nothing.
        if asked.door.failure_policy() == FailurePolicy::Ignore && canary::is_canary(&review) {
            return Ok(respond::refusal(review.uid(), RefusalCode::Forbidden, canary::MESSAGE));
        }
        match self.decide(&review, asked, time.deadline).await {
            Ok((decision, way)) => {
                self.metrics.decided(review.operation(), &decision, way, time.begun.elapsed());
                report::decision(&review, &decision);
                Ok(decision.to_review(review.uid()))
            }
            Err(rejection) => self.refuse(rejection, Some(told(&review)), asked.door),
        }
    }

    async fn by_locks(&self, locks: &Locks, bytes: &[u8], asked: &Asked, time: Time) -> Result<Vec<u8>, Rejection> {
        let review = LockReview::parse(bytes)?;
        let about = review.review();
        match self.decide_locks(locks, &review, asked, time.deadline).await {
            Ok((decision, way)) => {
                self.metrics.guards.lock_reviewed(about.operation(), &decision);
                self.metrics.took(way, time.begun.elapsed());
                if let Some(cause) = guards::refusal(&decision) {
                    self.metrics.refused(cause);
                }
                report::lock_decision(about, &decision);
                Ok(decision.to_review(about.uid()))
            }
            Err(rejection) => self.refuse(rejection, Some(told(about)), asked.door),
        }
    }

    async fn by_owners(
        &self,
        writer: &dyn Writer,
        bytes: &[u8],
        asked: &Asked,
        time: Time,
    ) -> Result<Vec<u8>, Rejection> {
        let review = Review::parse(bytes)?;
        let _place = match self.place() {
            Ok(place) => place,
            Err(rejection) => return self.refuse(rejection, Some(told(&review)), asked.door),
        };
        let (decision, way) = owners::decide(&self.reads, writer, &review, bytes, asked, time.deadline).await?;
        self.metrics.took(way, time.begun.elapsed());
        owners::tell(&review, &decision, &self.metrics);
        Ok(match decision.message() {
            Some(message) => respond::refusal(review.uid(), RefusalCode::Forbidden, &message),
            None => respond::allowed(review.uid()),
        })
    }

    async fn decide_locks(
        &self,
        locks: &Locks,
        review: &LockReview<'_>,
        asked: &Asked,
        deadline: Instant,
    ) -> Result<(LockDecision, Way), Rejection> {
        let evaluation = locks.evaluate(review, asked);
        if evaluation.is_settled() {
            return Ok((evaluation.decide(), Way::Memory));
        }
        let _place = self.place()?;
        Ok((locks.decide(&self.reads, evaluation, deadline).await, Way::Reads))
    }

    async fn decide(
        &self,
        review: &Review<'_>,
        asked: &Asked,
        deadline: Instant,
    ) -> Result<(Decision, Way), Rejection> {
        let failure_policy = asked.door.failure_policy();
        let snapshot = self.rules.snapshot();
        let loaded = match &*snapshot {
            Snapshot::Loaded(loaded) => loaded,
            Snapshot::NotLoaded { why } => {
                let decision = Decision::not_ready(failure_policy, why.clone()).answering(review);
                return Ok((decision, Way::Memory));
            }
        };
        let mut place = None;
        if let Some(doubt) = &loaded.doubt {
            place = Some(self.place()?);
            if let Err(why) = proof::rules_are_current(&self.reads, doubt, review, deadline).await {
                return Ok((Decision::not_current(failure_policy, why).answering(review), Way::Reads));
            }
        }
        let evaluation = self.evaluate(loaded, review, asked, false);
        if evaluation.is_settled() && place.is_none() {
            return Ok((evaluation.decide(), Way::Memory));
        }
        let _place = match place {
            Some(place) => place,
            None => self.place()?,
        };
        let mut decision = driver::decide(&self.reads, evaluation, deadline).await;
        if !decision.allowed()
            && let Some(departed) = &loaded.departed
            && proof::provider_has_withdrawn(&self.reads, departed, review, deadline).await
        {
            let evaluation = self.evaluate(loaded, review, asked, true);
            decision = driver::decide(&self.reads, evaluation, deadline).await;
        }
        Ok((decision, Way::Reads))
    }

    fn evaluate(&self, loaded: &Loaded, review: &Review<'_>, asked: &Asked, provider_withdrew: bool) -> Evaluation {
        let context = core::Context::default()
            .with_workspaces(&loaded.workspaces)
            .with_overrides(&self.overrides)
            .with_failure_policy(asked.door.failure_policy())
            .with_provider_withdrawn(provider_withdrew);
        let evaluation = loaded.rules.evaluate(review, &context);
        match asked.scope() {
            Some(scope) => evaluation.within(scope),
            None => evaluation,
        }
    }

    /// A place among the reviews that wait for API servers.
    fn place(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        self.reviews.places.semaphore().try_acquire_owned().map_err(|_| Rejection::TooMany)
    }

    /// Tells whom it can be told to; for rules that are ignored where they fail, the API server then does so.
    fn refuse(&self, rejection: Rejection, to: Option<(&str, RefusalCode)>, door: Door) -> Result<Vec<u8>, Rejection> {
        match to {
            Some((uid, refusal)) if door.failure_policy() == FailurePolicy::Fail => {
                self.log.warn("a review was refused", rejection.label(), &rejection.detail());
                self.metrics.refused(rejection.label());
                Ok(respond::refusal(uid, refusal, &rejection.to_string()))
            }
            _ => Err(rejection),
        }
    }
}

/// The review to answer, and how it is refused.
fn told<'r>(review: &'r Review<'_>) -> (&'r str, RefusalCode) {
    (review.uid(), RefusalCode::of(review))
}

/// That it is a `POST` of JSON, and to which door.
fn check(head: &Parts, doors: &Doors) -> Result<Asked, Rejection> {
    let unknown = || if doors.keys.is_some() { Rejection::Unsigned } else { Rejection::Path };
    let asked = Asked::read(head.uri.path(), doors.keys.as_ref());
    let asked = asked.filter(|asked| doors.is_open(asked.door)).ok_or_else(unknown)?;
    if head.method != Method::POST {
        return Err(Rejection::Method);
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { Ok(asked) } else { Err(Rejection::ContentType) }
}

impl Doors {
    fn is_open(&self, door: Door) -> bool {
        match door {
            Door::Rules(_) => true,
            Door::Owners => self.owners.is_some(),
            Door::Locks | Door::CompatLocks => self.locks(door).is_some(),
        }
    }

    fn locks(&self, door: Door) -> Option<&Locks> {
        match door {
            Door::Locks => self.locks.as_deref(),
            Door::CompatLocks => self.compat_locks.as_deref(),
            Door::Rules(_) | Door::Owners => None,
        }
    }
}

impl<P, B> Service<Request<B>> for ReviewService<P>
where
    P: Port,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response<Full<bytes::Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { shared, doors } = self.clone();
        async move { Ok(shared.answer(request, &doors).await) }.boxed()
    }
}

impl<P: Port> Clone for ReviewService<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), doors: self.doors.clone() }
    }
}

impl<P: Port> std::fmt::Debug for ReviewService<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewService").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl Limits {
    depguard_kcp::builder_methods! {
        review: usize,
        reviews: usize,
        at_once: usize,
        pages: usize,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { review: (3 << 20) + (64 << 10), reviews: 256 << 20, at_once: 4096, pages: 64 << 20 }
    }
}
