//! Admission service: an HTTP request in, an answered AdmissionReview out.

mod by_rules;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use depguard_core::api::FailurePolicy;
use depguard_core::decision::{Causes, Sender};
use depguard_core::interlock::Buckets;
use depguard_core::locks::LockDecision;
use depguard_core::model::GroupResource;
use depguard_core::probe::{LoadedRule, LoadedRulesRequest, dispatch_canary};
use depguard_core::protocol::{Cause, ObjectReview};
use depguard_core::{self as core, ControlPlane, OverridePolicy, Review};
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

use crate::limits::gauged_semaphore::GaugedSemaphore;
use crate::limits::read_budget::{Budget, Size};
use crate::limits::review_limits::Limits;
use crate::metrics::gauges::Queue;
use crate::metrics::{DecidedBy, Metrics};
use crate::ports::api_reader::{ApiReader, Writer};
use crate::reads::bounded_reader::BoundedReader;
use crate::reads::driver::Reads;
use crate::reads::lookup_runner::LookupRunner;
use crate::reads::missing_rights::MissingRights;
use crate::reads::shared_gets::SharedGets;
use crate::reads::shared_writer::SharedWriter;
use crate::rules::active_rules::Rules;
use crate::server::tasks::Tasks;
use crate::service::body::ReviewBody;
use crate::service::denial_events::DenialEvents;
use crate::service::generations::Generations;
use crate::service::interlock::Interlock;
use crate::service::limited_log::LimitedLog;
use crate::service::locks::Locks;
use crate::service::rejection::Rejection;
use crate::service::review_rooms::{self, ReviewRooms};
use crate::service::routes::{self, PathKeys, Route, RoutedPath};
use crate::service::ruled_review::RuledReview;
use crate::service::spec_admission::{self, SpecAdmissions};
use crate::traces::{self, About, Tracer, WaitingTraces};
use crate::{metrics::gauges, service::decision_log, service::owners, service::response, service::review_uid};

/// Admission service for reviews that are posted to `/validate`: a [`tower::Service`] for any server, also a provider's
/// own.
///
/// The service takes `POST /validate` for deletions and `POST /reference` for creations and updates, each also with
/// `/ignore` for rules with `failurePolicy: Ignore`, with an `admission.k8s.io/v1` AdmissionReview as `application/json`, and answers within the caller's `?timeout=` less a
/// margin. If the path goes on with a scope (see [`PathKeys`]), the service decides only about objects of this scope. A
/// request that is no review gets a 4xx with a plain sentence; an API server then goes by the webhook's
/// `failurePolicy`, which is `Fail`. The service is always ready, and cheap to clone.
///
/// Further reviews are answered at paths of their own, within the same limits. Each kind is switched on by itself:
/// [locks](Self::guarding_locks), [locks of the older kind](Self::guarding_compat_locks),
/// [owners](Self::guarding_owners).
pub struct ReviewService<P: ApiReader> {
    shared: Arc<Shared<P>>,
    routes: Routes,
}

/// Paths that are answered, and features beside checks.
#[derive(Clone, Default)]
struct Routes {
    keys: Option<PathKeys>,
    locks: Option<Arc<Locks>>,
    compat_locks: Option<Arc<Locks>>,
    /// Writer of the notes on owners.
    owners: Option<Arc<dyn Writer>>,
    spec_admissions: Option<Arc<SpecAdmissions>>,
    interlock: Option<Arc<Interlock>>,
    denial_events: Option<Arc<DenialEvents>>,
    tracer: Option<Arc<Tracer>>,
}

/// Arrival time of a review, and the time by which it must be answered.
#[derive(Clone, Copy)]
struct Time {
    begun: Instant,
    deadline: Instant,
}

struct Shared<P: ApiReader> {
    reads: Reads<P>,
    rules: Rules,
    overrides: OverridePolicy,
    limits: Limits,
    reviews: Queue,
    rooms: ReviewRooms,
    reading: [Queue; Size::ALL.len()],
    missing_rights: MissingRights,
    metrics: Arc<Metrics>,
    log: LimitedLog,
}

impl<P: ApiReader> ReviewService<P> {
    /// Makes a service that decides by `rules` and by the reads of `port`.
    pub fn new(port: P, rules: Rules, overrides: OverridePolicy) -> Self {
        Self::with_limits(port, rules, overrides, Limits::default())
    }

    /// Makes a service with other limits.
    pub fn with_limits(port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        Self::with_tasks(Tasks::default(), port, rules, overrides, limits)
    }

    /// Makes a service whose tasks that may outlive a review are counted among `tasks`.
    pub(crate) fn with_tasks(tasks: Tasks, port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        // A review for which there is no room even alone would wait in vain.
        let bytes = GaugedSemaphore::new(limits.reviews.max(limits.review));
        let rooms = ReviewRooms::new(&limits, bytes.clone());
        let reviews = Queue { name: "reviews", places: GaugedSemaphore::new(limits.at_once), bytes };
        let metrics = Arc::new(Metrics::default());
        let source = Arc::new(BoundedReader::new(port, Budget::new(limits.pages), Arc::clone(&metrics)));
        let reading = Size::ALL.map(|size| {
            let (places, bytes) = source.budget().taken(size);
            Queue { name: size.label(), places, bytes }
        });
        let reads = Reads {
            gets: SharedGets::new(Arc::clone(&source), tasks.clone()),
            lookups: LookupRunner::new(Arc::clone(&source), tasks.clone()),
            tables: SharedWriter::new(Arc::clone(&source), tasks.clone()),
            registers: SharedWriter::new(source, tasks.clone()),
            tasks,
        };
        Self {
            shared: Arc::new(Shared {
                reads,
                rules,
                overrides,
                limits,
                reviews,
                rooms,
                reading,
                missing_rights: MissingRights::default(),
                metrics,
                log: LimitedLog::default(),
            }),
            routes: Routes::default(),
        }
    }

    /// Adds the metrics of this service to a registry of `prometheus-client` 0.25, such as one that is served at
    /// `/metrics`. All names begin with `depguard_`.
    pub fn register(&self, registry: &mut Registry) {
        let Shared { metrics, rules, reviews, reading, .. } = &*self.shared;
        metrics.register(registry);
        let queues: Vec<_> = std::iter::once(reviews).chain(reading).cloned().collect();
        gauges::of_service(registry, rules.clone(), &queues);
    }

    /// Answers only paths that one of these keys has signed.
    pub fn with_path_keys(mut self, keys: PathKeys) -> Self {
        self.routes.keys = Some(keys);
        self
    }

    /// Answers `POST /lock`, too: refuses what ObjectLocks and ClusterObjectLocks forbid, guards these locks, and has
    /// `writer` write the tables by which they are found.
    pub fn guarding_locks(mut self, control_plane: ControlPlane, writer: impl Writer) -> Self {
        self.routes.locks = Some(Arc::new(Locks::of_objects(control_plane, Arc::new(writer))));
        self
    }

    /// Answers `POST /rule`, too: refuses rules that don't work as written, before they are stored.
    pub fn admitting_specs(mut self, control_plane: ControlPlane) -> Self {
        self.routes.spec_admissions = Some(Arc::new(SpecAdmissions::new(control_plane)));
        self
    }

    /// Interlocks new references with the deletions of their targets, where a rule refuses both: each side records a mark
    /// in a reference register before its final reads. `writer` reaches the registers. All replicas, and the controller,
    /// which makes the registers, must have the same number of them, and the same key: a path that names the
    /// [generation](Buckets::generation) of others gets 404. A path without a generation is answered by the registers
    /// without a key. Once a path came that the registers' key has signed ([`PathKey::of_period`]), all paths with a
    /// generation must be signed so.
    ///
    /// [`PathKey::of_period`]: depguard_kcp::PathKey::of_period
    pub fn interlocking(self, buckets: Buckets, writer: impl Writer) -> Self {
        self.interlocking_by(Generations::new(buckets), writer)
    }

    /// Interlocks by these registers.
    pub(crate) fn interlocking_by(mut self, generations: Generations, writer: impl Writer) -> Self {
        self.routes.interlock = Some(Arc::new(Interlock::new(generations, writer)));
        self
    }

    /// Returns the registers of the interlock, whose key may follow.
    pub(crate) fn generations(&self) -> Option<&Generations> {
        self.routes.interlock.as_deref().map(Interlock::generations)
    }

    /// Has `writer` write Events about refusals beside the refused objects, in plain Kubernetes: in the background, of
    /// each object one in five minutes, and of each namespace at most 20.
    pub fn telling_of_denials(mut self, writer: impl Writer) -> Self {
        self.routes.denial_events = Some(Arc::new(DenialEvents::new(writer)));
        self
    }

    /// Begins a trace with each review, and returns the traces that are to be sent.
    pub(crate) fn tracing(mut self) -> (Self, WaitingTraces) {
        let (tracer, waiting) = Tracer::new(Arc::clone(&self.shared.metrics));
        self.routes.tracer = Some(Arc::new(tracer));
        (self, waiting)
    }

    /// Answers `POST /lock/compat`, too: refuses to change or delete an object of these kinds if there is a
    /// `kotas.tech/v1` Lock with the object's name.
    pub fn guarding_compat_locks(mut self, kinds: BTreeSet<GroupResource>) -> Self {
        self.routes.compat_locks = Some(Arc::new(Locks::Compat(kinds)));
        self
    }

    /// Answers `POST /owner`, too: refuses to delete a GlobalOwner in the foreground, and a GroupOwner that still owns
    /// objects. If a GlobalOwner is deleted and its objects are to stay, `writer` notes that on the GlobalOwner.
    pub fn guarding_owners(mut self, writer: impl Writer) -> Self {
        self.routes.owners = Some(Arc::new(writer));
        self
    }
}

impl<P: ApiReader> Shared<P> {
    async fn answer<B>(&self, request: Request<B>, routes: &Routes) -> Response<Full<Bytes>>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match self.review(request, routes).await {
            Ok(answer) => response::review(answer),
            Err(rejection) => {
                let (cause, detail) = (rejection.label(), rejection.detail());
                match rejection {
                    // API servers never send such a request.
                    Rejection::Path | Rejection::Unsigned => tracing::debug!(cause, "a request was rejected: {detail}"),
                    _ => self.log.warn("a request was rejected", cause, &detail),
                }
                self.metrics.rejected(rejection.label());
                rejection.response()
            }
        }
    }

    async fn review<B>(&self, request: Request<B>, routes: &Routes) -> Result<Bytes, Rejection>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        let path = route(&head, routes)?;
        let deadline = begun.checked_add(core::time_to_answer(head.uri.query())).unwrap_or(begun);

        let mut review_body = ReviewBody::new(self.limits.review, &self.rooms.bodies);
        let read = timeout_at(deadline, review_body.fill(body)).await;
        let read = read.map_err(|_| Rejection::Slow).and_then(|read| read.map_err(Rejection::Body));
        let room = match read {
            Ok(()) => self.rooms.decide(review_body.bytes().len(), deadline).await,
            Err(rejection) => Err(rejection),
        };
        let _room = match room {
            Ok(room) => room,
            Err(rejection) => {
                let uid = review_uid::of_beginning(review_body.bytes());
                // The kind of the object was not read.
                let answer = self.refuse(rejection, uid.as_deref().map(|uid| (uid, Sender::Unknown)), path.route)?;
                return Ok(answer.into());
            }
        };
        let (bytes, time) = (review_body.bytes(), Time { begun, deadline });
        if let (Route::SpecAdmission, Some(admissions)) = (path.route, &routes.spec_admissions) {
            return self.admit_spec(admissions, bytes, time).await.map(Bytes::from);
        }
        match (path.route, routes.locks(path.route), &routes.owners) {
            (Route::Locks | Route::CompatLocks, Some(locks), _) => {
                self.review_by_locks(locks, bytes, &path, time).await.map(Bytes::from)
            }
            (Route::Owners, _, Some(writer)) => {
                self.review_by_owners(&**writer, bytes, &path, time).await.map(Bytes::from)
            }
            _ => self.review_by_rules(routes, bytes, &path, time).await,
        }
    }

    async fn review_by_rules(
        &self,
        routes: &Routes,
        bytes: &[u8],
        path: &RoutedPath,
        time: Time,
    ) -> Result<Bytes, Rejection> {
        let interlock = match &routes.interlock {
            Some(interlock) => Some(interlock.at(path.generation).ok_or(Rejection::Generation)?),
            None if path.generation.is_some() => return Err(Rejection::Generation),
            None => None,
        };
        let ruled = RuledReview::parse(path.route, bytes)?;
        let review = ruled.review();
        if let Some(request) = LoadedRulesRequest::from_review(review, bytes)? {
            let registers = interlock.map_or(0, |at| at.buckets.number());
            let replica = LoadedRule::default().interlocked_by(registers).authenticated(path.is_authenticated);
            let gets = &self.reads.gets;
            let room = self.rooms.answer(time.deadline).await?;
            let answer = self.missing_rights.answer_loaded_rules(gets, &self.rules, &request, &replica).await;
            return Ok(review_rooms::keeping(room, answer));
        }
        if dispatch_canary::is_canary(review, path.route.failure_policy()) {
            let causes = Causes::one(Cause::DispatchCanary, "");
            let refusal =
                response::refusal(review.uid(), Sender::from_review(review), dispatch_canary::MESSAGE, &causes);
            return Ok(refusal.into());
        }
        match self.decide(interlock, &ruled, path, time.deadline).await {
            Ok((decision, way)) => {
                self.metrics.decided(review.operation(), &decision, way, time.begun.elapsed());
                decision_log::decision(review, &decision);
                traces::note(|| About::new(review, decision.label()));
                if let Some(events) = &routes.denial_events {
                    events.tell(&self.reads, review, bytes, &decision);
                }
                Ok(decision.to_review(review.uid()).into())
            }
            Err(rejection) => self.refuse(rejection, Some(recipient(review)), path.route).map(Bytes::from),
        }
    }

    async fn review_by_locks(
        &self,
        locks: &Locks,
        bytes: &[u8],
        path: &RoutedPath,
        time: Time,
    ) -> Result<Vec<u8>, Rejection> {
        let review = ObjectReview::parse(bytes)?;
        let about = review.review();
        match self.decide_locks(locks, &review, path, time.deadline).await {
            Ok((decision, way)) => {
                self.metrics.guards.lock_reviewed(about.operation(), &decision);
                self.metrics.took(way, time.begun.elapsed());
                self.metrics.refused(&decision.causes());
                decision_log::lock_decision(about, &decision);
                traces::note(|| About::new(about, decision.label()));
                Ok(decision.to_review(about.uid()))
            }
            Err(rejection) => self.refuse(rejection, Some(recipient(about)), path.route),
        }
    }

    async fn review_by_owners(
        &self,
        writer: &dyn Writer,
        bytes: &[u8],
        path: &RoutedPath,
        time: Time,
    ) -> Result<Vec<u8>, Rejection> {
        let review = Review::parse(bytes)?;
        let place = || self.place();
        let (decision, way) =
            match owners::decide(&self.reads, writer, &review, bytes, path, place, time.deadline).await {
                Err(rejection @ Rejection::TooMany) => {
                    return self.refuse(rejection, Some(recipient(&review)), path.route);
                }
                decided => decided?,
            };
        self.metrics.took(way, time.begun.elapsed());
        owners::tell(&review, &decision, &self.metrics);
        traces::note(|| About::new(&review, decision.label()));
        Ok(response::decided(&review, decision.message(), &decision.causes(), &[]))
    }

    async fn admit_spec(&self, admissions: &SpecAdmissions, bytes: &[u8], time: Time) -> Result<Vec<u8>, Rejection> {
        let review = ObjectReview::parse(bytes)?;
        let about = review.review();
        let decision = admissions.decide(&self.reads, &review, || self.place(), time.deadline).await?;
        spec_admission::tell(&review, &decision, &self.metrics);
        traces::note(|| About::new(about, decision.label()));
        Ok(response::decided(about, decision.message(), &decision.causes(), &decision.warnings()))
    }

    async fn decide_locks(
        &self,
        locks: &Locks,
        review: &ObjectReview<'_>,
        path: &RoutedPath,
        deadline: Instant,
    ) -> Result<(LockDecision, DecidedBy), Rejection> {
        let evaluation = locks.evaluate(review, path);
        if evaluation.is_settled() {
            return Ok((evaluation.decide(), DecidedBy::Memory));
        }
        let _place = self.place()?;
        Ok((locks.decide(&self.reads, evaluation, deadline).await, DecidedBy::Reads))
    }

    /// Takes a place among the reviews that wait for API servers.
    fn place(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        self.reviews.places.semaphore().try_acquire_owned().map_err(|_| Rejection::TooMany)
    }

    /// Refuses the review if it is known whom to answer. With failure policy `Ignore` it returns the rejection instead,
    /// and the API server then ignores the rules.
    fn refuse(&self, rejection: Rejection, to: Option<(&str, Sender)>, route: Route) -> Result<Vec<u8>, Rejection> {
        match to {
            Some((uid, sender)) if route.failure_policy() == FailurePolicy::Fail => {
                self.log.warn("a review was refused", rejection.label(), &rejection.detail());
                let (message, causes) = (rejection.to_string(), Causes::one(rejection.cause(), ""));
                self.metrics.refused(&causes);
                Ok(response::refusal(uid, sender, &message, &causes))
            }
            _ => Err(rejection),
        }
    }
}

/// Returns the uid of a review to answer, and its sender.
fn recipient<'r>(review: &'r Review<'_>) -> (&'r str, Sender) {
    (review.uid(), Sender::from_review(review))
}

/// Checks that a request is a `POST` of JSON to an open route, and returns the route and the scope.
fn route(head: &Parts, routes: &Routes) -> Result<RoutedPath, Rejection> {
    let registers = routes.interlock.as_deref().map(Interlock::generations);
    let path = RoutedPath::read(head.uri.path(), routes.keys.as_ref(), registers)?;
    if !routes.is_open(path.route) {
        return Err(routes::unknown(routes.keys.as_ref()));
    }
    if head.method != Method::POST {
        return Err(Rejection::Method);
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { Ok(path) } else { Err(Rejection::ContentType) }
}

impl Routes {
    fn is_open(&self, route: Route) -> bool {
        match route {
            Route::Rules(_) | Route::References(_) => true,
            Route::Owners => self.owners.is_some(),
            Route::SpecAdmission => self.spec_admissions.is_some(),
            Route::Locks | Route::CompatLocks => self.locks(route).is_some(),
        }
    }

    fn locks(&self, route: Route) -> Option<&Locks> {
        match route {
            Route::Locks => self.locks.as_deref(),
            Route::CompatLocks => self.compat_locks.as_deref(),
            Route::Rules(_) | Route::References(_) | Route::Owners | Route::SpecAdmission => None,
        }
    }
}

impl<P, B> Service<Request<B>> for ReviewService<P>
where
    P: ApiReader,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { shared, routes } = self.clone();
        // Without a tracer, the future is no larger than before.
        let Some(tracer) = routes.tracer.clone() else {
            return async move { Ok(shared.answer(request, &routes).await) }.boxed();
        };
        let headers = request.headers().clone();
        async move { Ok(tracer.trace(&headers, shared.answer(request, &routes)).await) }.boxed()
    }
}

impl<P: ApiReader> Clone for ReviewService<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), routes: self.routes.clone() }
    }
}

impl<P: ApiReader> std::fmt::Debug for ReviewService<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewService").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}
