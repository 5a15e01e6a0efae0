//! Metrics of the service, as a provider's own registry shows them.

use bytes::Bytes;
use depguard_core::OverridePolicy;
use depguard_webhook::{ApiReader, Fetched, ReviewService, Rules};
use http::Request;
use http_body_util::Full;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tower::ServiceExt;

use crate::{answer, at_once, list, post, post_bytes, review, service, unasked, vm};

/// Returns all series after a service has answered these requests.
async fn counted<P: ApiReader>(
    service: ReviewService<P>,
    requests: impl IntoIterator<Item = Request<Full<Bytes>>>,
) -> String {
    let registry = registered(&service);
    for request in requests {
        service.clone().oneshot(request).await.unwrap();
    }
    shown(&registry)
}

/// Returns a registry with the metrics of a service.
pub(crate) fn registered<P: ApiReader>(service: &ReviewService<P>) -> Registry {
    let mut registry = Registry::default();
    service.register(&mut registry);
    registry
}

/// Returns all series, each as its name with labels and its value.
pub(crate) fn shown(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

pub(crate) fn assert_counted(text: &str, series: &[&str]) {
    for line in series {
        assert!(text.lines().any(|counted| counted == *line), "`{line}` is not in:\n{text}");
    }
}

#[tokio::test]
async fn a_refusal_is_counted_by_its_cause_and_what_it_took() {
    let page = list(&[vm("m1", "a"), vm("m2", "b")]);
    let Fetched::Response { body, .. } = &page else { unreachable!() };
    let bytes = format!("depguard_read_bytes_total{{size=\"small\"}} {}", body.len());
    let text = counted(service(at_once(move |_| page.clone())), [post(&review())]).await;
    assert_counted(
        &text,
        &[
            "depguard_reviews_total{operation=\"DELETE\",decision=\"referenced\"} 1",
            "depguard_review_duration_seconds_count{decided_by=\"reads\"} 1",
            "depguard_refusals_total{cause=\"StillReferenced\"} 1",
            "depguard_refusals_total{cause=\"ReadFailed\"} 0",
            "depguard_lookups_total{strategy=\"FieldSelector\"} 1",
            "depguard_lists_total{kind=\"selection\"} 1",
            "depguard_reads_total{size=\"small\"} 1",
            "depguard_read_answers_total{answer=\"2xx\"} 1",
            "depguard_rules_loaded 1.0",
            "depguard_rules{state=\"usable\"} 1.0",
            "depguard_queue_places{queue=\"reviews\"} 0.0",
            "depguard_queue_places_limit{queue=\"reviews\"} 4096.0",
            &bytes,
        ],
    );
}

#[tokio::test]
async fn what_could_not_be_found_out_is_counted_apart() {
    let failing = service(at_once(|_| Fetched::Failed("no route".to_owned())));
    let text = counted(failing, [post(&review())]).await;
    assert_counted(
        &text,
        &["depguard_refusals_total{cause=\"ReadFailed\"} 1", "depguard_read_answers_total{answer=\"failed\"} 1"],
    );
    let starting = ReviewService::new(unasked(), Rules::not_loaded_yet("starting"), OverridePolicy::default());
    let text = counted(starting, [post(&review())]).await;
    assert_counted(&text, &["depguard_refusals_total{cause=\"RulesNotLoaded\"} 1"]);
}

#[tokio::test]
async fn what_is_no_review_is_counted_by_what_is_wrong_with_it() {
    let requests = [
        post_bytes("/validate", "{}"),
        post_bytes("/elsewhere", "{}"),
        Request::get("/validate").body(Full::default()).unwrap(),
        Request::post("/validate").body(Full::default()).unwrap(),
    ];
    let text = counted(service(unasked()), requests).await;
    let causes = ["no-review", "path", "method", "content-type"];
    let series = causes.map(|cause| format!("depguard_rejections_total{{cause=\"{cause}\"}} 1"));
    assert_counted(&text, &series.each_ref().map(String::as_str));
}

/// Checks that a review can't make series: every user who may delete chooses names in it.
#[tokio::test]
async fn nothing_that_a_review_names_is_in_a_label() {
    let service = service(unasked());
    let registry = registered(&service);
    for n in 0..20 {
        let mut review = review();
        review["request"]["resource"]["resource"] = json!(format!("marker{n}"));
        review["request"]["name"] = json!(format!("marker{n}"));
        review["request"]["userInfo"]["username"] = json!(format!("marker{n}"));
        assert_eq!(answer(service.clone(), post(&review)).await["allowed"], true);
    }
    let text = shown(&registry);
    assert!(!text.contains("marker"), "{text}");
    assert_counted(&text, &["depguard_reviews_total{operation=\"DELETE\",decision=\"no-rule\"} 20"]);
}
