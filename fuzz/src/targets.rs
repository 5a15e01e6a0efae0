//! Fuzz targets, and the good documents from which they start.

use depguard_core::protocol::Answer;
use depguard_core::scan::{Extractor, Item, Prefilter};
use depguard_core::{Context, ControlPlane, Decision, FieldPath, Review, Rule, RuleSet};
use serde_json::{Value, json};

/// Limit that is longer than any answer. The message is a few kB, and each blocker that it names is a cause too.
const MAX_ANSWERED: usize = 32 << 10;

/// Checks that a parsed path prints to a path that is equal.
pub fn path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match FieldPath::parse(text) {
        Ok(path) => assert_eq!(FieldPath::parse(&path.to_string()).as_ref(), Ok(&path)),
        Err(error) => assert!(error.offset <= text.len() && text.is_char_boundary(error.offset), "{error}"),
    }
}

/// Checks that a rule is read, or refused with a message. A rule that was read protects the kinds that it names.
pub fn rule(bytes: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return };
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        let rules = RuleSet::load(control_plane, [&object]);
        match Rule::parse(control_plane, &object) {
            Ok(rule) => {
                for edge in rule.edges() {
                    let kind = &edge.target.gvr;
                    assert!(rules.names(kind.group.as_str(), kind.resource.as_str()), "{rule:?}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks that a deletion is allowed without any answers only for a reason in the review itself.
pub fn review(bytes: &[u8]) {
    let Ok(review) = Review::parse(bytes) else { return };
    let decision = evaluate(&review, |_| None);
    if decision.allowed() {
        let said = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        assert!(lets_go(&said), "{said}");
    }
}

/// Returns true if the review itself shows that its object may go, or that no rule protects the object.
pub(crate) fn lets_go(said: &Value) -> bool {
    let request = &said["request"];
    let target = json!({"group": "network.example.com", "version": "v1", "resource": "vpcs"});
    let is_another = |field| request["resource"][field] != target[field];
    let metadata = &request["oldObject"]["metadata"];
    request["operation"] != "DELETE"
        || is_another("group")
        || is_another("resource")
        || !request["subResource"].is_null()
        || !metadata["deletionTimestamp"].is_null()
        || (metadata["annotations"]["dependencies.opendefense.cloud/skip-protection"] == "true"
            && may_override(&request["userInfo"]))
}

/// Returns true if the user is an operator by the default groups, and not the control plane, which acts for anybody.
fn may_override(user: &Value) -> bool {
    let name = user["username"].as_str().unwrap_or_default();
    let acts_for_others = ["system:apiserver", "system:kube-controller-manager"].contains(&name)
        || name.starts_with("system:serviceaccount:kube-system:");
    let groups = user["groups"].as_array().map_or(&[][..], Vec::as_slice);
    !acts_for_others && groups.iter().any(|group| group == "system:masters" || group == "system:kcp:admin")
}

/// Checks that a page lets the target go only if it is a complete list in which nothing refers to the target.
pub fn page(bytes: &[u8]) {
    let Ok(review) = Review::parse(GOOD_REVIEW.as_bytes()) else { unreachable!("it is a review") };
    let decision = evaluate(&review, |_| Some(bytes));
    if decision.allowed() {
        let Ok(list) = serde_json::from_slice::<Value>(&mended(bytes)) else {
            // The bytes are no JSON. The core did not read them, because they hold the target's name in none of its
            // spellings.
            let holds = |piece: &[u8]| bytes.windows(piece.len()).any(|window| window == piece);
            assert!(!holds(br#""a""#) && !holds(br"\u0061"), "{}", String::from_utf8_lossy(bytes));
            return;
        };
        assert!(list["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()), "{list}");
        assert!(matches!(list["metadata"]["continue"].as_str(), None | Some("")), "{list}");
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(list["items"].is_array() || list["items"].is_null(), "{list}");
        for item in items {
            assert!(!refers(item), "{item}");
        }
    }
}

/// Checks that a page searched for a name gives the same result as a page read whole, and that the search leaves out no
/// object that refers to the name.
pub fn search(bytes: &[u8]) {
    let (Some(prefilter), Ok(path)) = (Prefilter::new(["a"]), FieldPath::parse(".spec.vpcRef.name")) else {
        unreachable!("they are a name and a path")
    };
    let extractor = Extractor::new([&path]);
    let read = |item: &Item<'_, '_>| (item.name().to_owned(), item.value(0).map(str::to_owned));
    let (mut all, mut found) = (Vec::new(), Vec::new());
    let Ok(page) = extractor.page(bytes, |item| all.push(read(item))) else { return };
    let said = extractor.search(bytes, Some(&prefilter), |item| found.push(read(item)));
    assert_eq!(said.ok(), Some(page), "{}", String::from_utf8_lossy(bytes));
    let mut rest = all.iter();
    assert!(found.iter().all(|object| rest.any(|other| other == object)), "{found:?} of {all:?}");
    let refer =
        |objects: &[(_, Option<String>)]| objects.iter().filter(|(_, name)| name.as_deref() == Some("a")).count();
    assert_eq!(refer(&all), refer(&found), "{}", String::from_utf8_lossy(bytes));
}

/// Returns the bytes with replacements for strings and numbers that `serde_json` cannot parse. depguard does not read
/// inside of them.
pub(crate) fn mended(bytes: &[u8]) -> Vec<u8> {
    let (mut mended, mut rest) = (Vec::new(), bytes);
    while let Some(first) = rest.first() {
        let (len, instead) = match first {
            b'"' => (string_len(rest), &br#""?""#[..]),
            b'-' | b'0'..=b'9' => (rest.iter().take_while(|byte| b"0123456789+-.eE".contains(byte)).count(), &b"0"[..]),
            byte => (1, std::slice::from_ref(byte)),
        };
        let (token, after) = rest.split_at(len);
        let is_right = serde_json::from_slice::<Value>(token).is_ok();
        mended.extend_from_slice(if is_right { token } else { instead });
        rest = after;
    }
    mended
}

/// Returns the length of the string at the beginning of these bytes; all of them if the string has no end.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns true if an object refers to the target of [`GOOD_REVIEW`] by [`GOOD_RULE`], by a plain reading.
fn refers(item: &Value) -> bool {
    let in_target_s = |namespace: &Value| namespace.as_str().is_none_or(|namespace| namespace == "default");
    let own = &item["metadata"]["namespace"];
    let one = item["spec"]["vpcRef"]["name"] == "a" && in_target_s(own);
    let networks = match &item["spec"]["networks"] {
        Value::Array(networks) => networks.iter().collect::<Vec<_>>(),
        Value::Object(networks) => networks.values().collect(),
        _ => Vec::new(),
    };
    let of_many = |network: &&Value| {
        let said = &network["vpc"]["namespace"];
        let namespace = if said.as_str().is_some_and(|said| !said.is_empty()) { said } else { own };
        network["vpc"]["name"] == "a" && in_target_s(namespace)
    };
    item["metadata"]["uid"] != "u1" && (one || networks.iter().any(of_many))
}

/// Decides with the same answer to every query, in at most a hundred rounds.
fn evaluate<'p>(review: &Review<'_>, answer: impl Fn(&str) -> Option<&'p [u8]>) -> Decision {
    let rule: Value = serde_json::from_str(GOOD_RULE).unwrap_or_default();
    let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule]);
    let mut evaluation = rules.evaluate(review, &Context::default());
    for _ in 0..100 {
        for query in evaluation.queries() {
            if let Some(body) = answer(&query.path) {
                evaluation.answer(query.id, Answer::Response { status: 200, body });
            }
        }
    }
    let decision = evaluation.decide();
    assert_eq!(decision.allowed(), decision.message().is_none());
    assert!(decision.to_review("1").len() <= MAX_ANSWERED);
    decision
}

/// Paths to start from.
pub const GOOD_PATHS: [&str; 5] = [
    ".spec.vpcRef.name",
    ".spec.networks[*].name",
    ".metadata.annotations['example.com/vpc']",
    ".spec.disks[0].claims.*",
    ".metadata.annotations['example.com/vpcs'].fromJSON()[*].name",
];

/// Rules of a plain cluster and of a kcp.
pub const GOOD_RULES: [&str; 3] = [
    GOOD_RULE,
    r#"{"metadata":{"name":"r","annotations":{"kcp.io/cluster":"2x"}},"spec":{"dependent":{"apiExportName":"compute.example.com",
    "group":"compute.example.com","version":"v1","kind":"VirtualMachine","resource":"virtualmachines"},"dependencies":[
    {"apiExportRef":{"path":"root:network","name":"network.example.com"},"group":"network.example.com","version":"v1",
    "resource":"vpcs","fieldRef":{"path":".spec.vpcRef.name"}}]}}"#,
    r#"{"metadata":{"name":"r"},"spec":{"failurePolicy":"Ignore","dependent":{"group":"","version":"v1","kind":"Pod",
    "resource":"pods","selector":{"matchLabels":{"tier":"prod"},"matchExpressions":[{"key":"a","operator":"NotIn",
    "values":["b"]}]}},"dependencies":[{"group":"network.example.com","version":"v1","resource":"vpcs","kind":"VPC",
    "fieldRef":{"path":".spec.refs.*.name","namespace":"default","kindPath":".spec.refs.*.kind","defaultKind":"Net","uidPath":".spec.refs.*.uid",
    "pattern":"^vpc/(.*)$","replacement":"$1"},"when":{"path":".spec.state","notIn":["Running",true,7],
    "and":[{"path":".spec.refs.*.up","in":[true]}]},"optional":true,"excludeNames":["default"],
    "onDelete":"Warn","ownedDependents":"Ignore","message":"detach {target} first"},{"group":"network.example.com","version":"v1",
    "resource":"subnets","selectorRef":{"path":".spec.selector","narrowedBy":["near"]}},{"group":"","version":"v1","resource":"secrets",
    "selectorRef":{"selector":{"matchLabels":{"tier":"prod"}}}}]}}"#,
];

/// Reviews of deletions to which the rule applies, and one of another operation.
pub const GOOD_REVIEWS: [&str; 3] = [
    GOOD_REVIEW,
    r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"DELETE","dryRun":true,
    "resource":{"group":"network.example.com","version":"v1","resource":"vpcs"},"userInfo":{"username":"system:apiserver",
    "groups":["system:masters"]},"oldObject":{"metadata":{"name":"a","namespace":"default","annotations":
    {"dependencies.opendefense.cloud/skip-protection":"true"}}}}}"#,
    r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"UPDATE","subResource":"status",
    "resource":{"group":"network.example.com","version":"v1","resource":"vpcs"},"oldObject":{"metadata":{"name":"a"}}}}"#,
];

/// Pages: a complete list in which nothing refers to the target; one with a continue token; lists with references; an
/// empty one without a resourceVersion.
pub const GOOD_PAGES: [&str; 5] = [
    r#"{"kind":"List","metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"name":"m1","namespace":"default","uid":"u2"},"spec":{"vpcRef":{"name":"b"},"disks":[1,2]}},
    {"metadata":{"name":"m2","namespace":"default","uid":"u3"},"spec":{}}]}"#,
    r#"{"metadata":{"resourceVersion":"7","continue":"t","remainingItemCount":3},"items":[{"metadata":{"name":"m1"}}]}"#,
    r#"{"items":[{"metadata":{"name":"m1"},"spec":{"vpcRef":{"name":"a"}}}],"metadata":{"resourceVersion":"7"}}"#,
    r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"m1","namespace":"default"},"spec":{"networks":[
    {"vpc":{"name":"b"}},{"vpc":{"namespace":"other","name":"a"}},{"vpc":{"name":"c","namespace":""}}]}}]}"#,
    r#"{"metadata":{},"items":[]}"#,
];

pub(crate) const GOOD_RULE: &str = r#"{"metadata":{"name":"virtualmachines"},"spec":{"dependent":{"group":"compute.example.com",
    "version":"v1","kind":"VirtualMachine","resource":"virtualmachines"},"dependencies":[{"group":"network.example.com",
    "version":"v1","resource":"vpcs","fieldRef":{"path":".spec.vpcRef.name"}},{"group":"network.example.com","version":"v1",
    "resource":"vpcs","fieldRef":{"path":".spec.networks[*].vpc.name","namespacePath":".spec.networks[*].vpc.namespace"}}]}}"#;

const GOOD_REVIEW: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",
    "operation":"DELETE","resource":{"group":"network.example.com","version":"v1","resource":"vpcs"},
    "userInfo":{"username":"tenant","groups":["system:authenticated"]},
    "oldObject":{"metadata":{"name":"a","namespace":"default","uid":"u1"}}}}"#;
