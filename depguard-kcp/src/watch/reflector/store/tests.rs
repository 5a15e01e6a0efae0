use depguard_core::LogicalCluster;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const EXPORT: &str = "dependencies.opendefense.cloud";
const RULES: usize = 0;
const EXPORTS: usize = 1;

fn watched() -> Vec<Watched> {
    let rules = Watched {
        group: "d.c",
        version: "v1",
        plural: "dependencyrules",
        kind: "DependencyRule",
        required: true,
        names: None,
        fields: None,
    };
    vec![rules, Watched { plural: "apiexports", kind: "APIExport", required: false, ..rules }]
}

fn mk_ledger() -> Store {
    Store::of_slices(
        watched(),
        EndpointSlices { export: EXPORT.to_owned(), workspace: Some("root:dep-ctrl".to_owned()) },
    )
}

fn mk_slice(uid: &str, urls: &[&str]) -> (ObjectKey, Arc<Value>) {
    let endpoints: Vec<_> = urls.iter().map(|url| json!({"url": url})).collect();
    let slice = json!({
        "metadata": {"uid": uid, "name": uid},
        "spec": {"export": {"name": EXPORT}},
        "status": {"endpoints": endpoints},
    });
    ((None, uid.to_owned()), Arc::new(slice))
}

fn mk_object(cluster: &str, name: &str) -> (ObjectKey, Arc<Value>) {
    ((Some(LogicalCluster::parse(cluster).unwrap()), name.to_owned()), Arc::new(json!({"is": [cluster, name]})))
}

fn at(origin: &str, index: usize) -> Source {
    Source::Resource { origin: Arc::from(origin), index }
}

fn failed(why: &str, hidden: bool) -> Change {
    Change::Failed { why: why.to_owned(), hidden }
}

/// Applies changes at one moment.
fn tell(store: &mut Store, changes: impl IntoIterator<Item = (Source, Change)>) {
    for (source, change) in changes {
        store.change(&source, change, Instant::now());
    }
}

fn slices(listed: impl IntoIterator<Item = (ObjectKey, Arc<Value>)>) -> (Source, Change) {
    (Source::Slices, Change::Listed(listed.into_iter().collect()))
}

fn listed(origin: &str, index: usize, objects: impl IntoIterator<Item = (ObjectKey, Arc<Value>)>) -> (Source, Change) {
    (at(origin, index), Change::Listed(objects.into_iter().collect()))
}

fn names(store: &mut Store, plural: &str) -> Vec<String> {
    let state = store.state();
    let objects = &state.resource(plural).unwrap().objects;
    objects.keys().map(|(cluster, name)| format!("{}/{name}", cluster.as_ref().unwrap())).collect()
}

fn not_loaded(store: &mut Store) -> String {
    store.state().not_loaded().unwrap_or("loaded").to_owned()
}

#[test]
fn nothing_is_loaded_before_the_slices_are_read() {
    let mut store = mk_ledger();
    assert_eq!(not_loaded(&mut store), "depguard has not read the APIExportEndpointSlices yet");
    assert_eq!(store.sources(), BTreeSet::from([Source::Slices]));
    tell(&mut store, [(Source::Slices, failed("403 no", true))]);
    assert_eq!(not_loaded(&mut store), "403 no");
}

#[test]
fn a_slice_without_endpoints_is_loaded_with_nothing_there() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &[])])]);
    assert_eq!(not_loaded(&mut store), "loaded");
    assert!(names(&mut store, "dependencyrules").is_empty());
}

#[test]
fn no_slice_of_ours_is_not_the_same_as_no_rules() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([])]);
    assert!(not_loaded(&mut store).contains("has no APIExportEndpointSlice"));
}

#[test]
fn a_slice_that_goes_leaves_the_rules_but_they_no_longer_count_as_loaded() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a"])]), listed("https://a", RULES, [mk_object("1", "r")])]);
    tell(&mut store, [listed("https://a", EXPORTS, [])]);
    assert_eq!(not_loaded(&mut store), "loaded");
    tell(&mut store, [(Source::Slices, Change::Deleted((None, "s".to_owned())))]);
    assert!(not_loaded(&mut store).contains("no APIExportEndpointSlice"));
    assert_eq!(names(&mut store, "dependencyrules"), ["1/r"]);

    // The new slice names no endpoint until kcp has filled it in. This does not mean that nobody has bound the export.
    tell(&mut store, [slices([mk_slice("t", &[])])]);
    assert!(not_loaded(&mut store).contains("was replaced and names no endpoint yet"));
    assert_eq!(names(&mut store, "dependencyrules"), ["1/r"]);
    tell(&mut store, [slices([mk_slice("t", &["https://a"])])]);
    assert_eq!(not_loaded(&mut store), "loaded");
}

#[test]
fn what_is_listed_anew_and_is_equal_stays_the_same_value() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a"])])]);
    let mut values = |listed| {
        tell(&mut store, [listed]);
        let state = store.state();
        let objects = &state.resource("dependencyrules").unwrap().objects;
        objects.values().map(|object| Arc::clone(&object.text)).collect::<Vec<_>>()
    };
    let before = values(listed("https://a", RULES, [mk_object("1", "a"), mk_object("1", "b")]));
    let other = ((mk_object("1", "b").0), Arc::new(json!({"is": "other"})));
    let after = values(listed("https://a", RULES, [mk_object("1", "a"), other]));
    assert!(Arc::ptr_eq(&before[0], &after[0]) && before[1] != after[1]);
}

#[test]
fn every_endpoint_must_be_listed() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a", "https://b"])])]);
    assert_eq!(store.sources().len(), 5);
    tell(&mut store, [listed("https://a", RULES, [mk_object("1", "r")])]);
    assert_eq!(not_loaded(&mut store), "depguard has not listed dependencyrules.d.c at https://b yet");
    tell(&mut store, [(at("https://b", RULES), failed("503", false))]);
    assert_eq!(not_loaded(&mut store), "503");
    tell(&mut store, [listed("https://b", RULES, [mk_object("2", "r")])]);
    assert_eq!(not_loaded(&mut store), "loaded");
    assert_eq!(names(&mut store, "dependencyrules"), ["1/r", "2/r"], "one name in two clusters is two objects");
    let state = store.state();
    let origins: Vec<_> =
        state.resource("dependencyrules").unwrap().objects.values().map(|o| o.origin.as_ref()).collect();
    assert_eq!(origins, ["https://a", "https://b"]);
}

#[test]
fn an_endpoint_that_leaves_takes_its_objects_and_comes_back_empty() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a"])]), listed("https://a", RULES, [mk_object("1", "r")])]);
    tell(&mut store, [slices([mk_slice("s", &[])])]);
    assert!(names(&mut store, "dependencyrules").is_empty());
    assert_eq!(not_loaded(&mut store), "loaded");
    assert_eq!(store.sources(), BTreeSet::from([Source::Slices]));
    // A late change from the ended watch is ignored.
    tell(&mut store, [listed("https://a", RULES, [mk_object("1", "r")])]);
    assert!(names(&mut store, "dependencyrules").is_empty());
    tell(&mut store, [slices([mk_slice("s", &["https://a"])])]);
    assert!(not_loaded(&mut store).contains("depguard has not listed "));
}

#[test]
fn an_error_after_loading_keeps_the_objects_and_shows_since_when() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a"])]), listed("https://a", RULES, [mk_object("1", "r")])]);
    let first = Instant::now();
    store.change(&at("https://a", RULES), failed("503", false), first);
    store.change(&at("https://a", RULES), failed("403", true), first + std::time::Duration::from_secs(9));
    let state = store.state();
    let rules = state.resource("dependencyrules").unwrap();
    assert_eq!(rules.readiness, Readiness::Loaded);
    assert_eq!(rules.last_error, Some(Failure { since: first, why: "403".to_owned() }));
    assert_eq!(rules.objects.len(), 1);

    tell(&mut store, [listed("https://a", RULES, [])]);
    assert_eq!(store.state().resource("dependencyrules").unwrap().last_error, None);
    assert!(names(&mut store, "dependencyrules").is_empty());

    tell(&mut store, [(Source::Slices, failed("timeout", false))]);
    let state = store.state();
    assert!(state.is_loaded());
    assert_eq!(state.slices_error().unwrap().why, "timeout");
}

#[test]
fn what_is_not_required_may_be_hidden_without_holding_up_the_rest() {
    let mut store = mk_ledger();
    tell(&mut store, [slices([mk_slice("s", &["https://a"])]), listed("https://a", RULES, [])]);
    tell(&mut store, [listed("https://a", EXPORTS, [mk_object("1", "e")])]);
    assert_eq!(store.state().resource("apiexports").unwrap().readiness, Readiness::Loaded);
    tell(&mut store, [(at("https://a", EXPORTS), failed("403 no", true))]);
    let state = store.state();
    assert!(state.is_loaded());
    let exports = state.resource("apiexports").unwrap();
    assert_eq!(exports.readiness, Readiness::Unavailable { why: "403 no".to_owned() });
    assert!(exports.objects.is_empty());
    tell(&mut store, [listed("https://a", EXPORTS, [mk_object("1", "e")])]);
    assert_eq!(store.state().resource("apiexports").unwrap().readiness, Readiness::Loaded);
}

#[test]
fn a_required_resource_is_never_unavailable() {
    let mut store = Store::of_cluster(watched(), "https://c");
    assert_eq!(store.sources().len(), 2);
    tell(&mut store, [(at("https://c", RULES), failed("404", true))]);
    assert_eq!(not_loaded(&mut store), "404");
    tell(&mut store, [listed("https://c", RULES, [])]);
    assert_eq!(not_loaded(&mut store), "loaded");
}

#[test]
fn what_did_not_change_is_shared_between_snapshots() {
    let mut store = Store::of_cluster(watched(), "https://c");
    tell(&mut store, [listed("https://c", RULES, []), listed("https://c", EXPORTS, [])]);
    let before = store.state();
    let (key, value) = mk_object("1", "r");
    tell(&mut store, [(at("https://c", RULES), Change::Applied(key, value))]);
    let after = store.state();
    assert!(Arc::ptr_eq(&before.resources[EXPORTS], &after.resources[EXPORTS]));
    assert_eq!(after.resources[RULES].objects.len(), 1);
}

/// Event in the history of a store.
#[derive(Debug, Clone)]
enum Step {
    Named(Vec<usize>),
    SlicesFailed,
    Told(usize, usize, Told),
}

#[derive(Debug, Clone)]
enum Told {
    Listed(BTreeSet<u8>),
    Applied(u8),
    Deleted(u8),
    Failed(bool),
}

const URLS: [&str; 3] = ["https://a", "https://b", "https://c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let told = prop_oneof![
        proptest::collection::btree_set(0..4_u8, 0..4).prop_map(Told::Listed),
        (0..4_u8).prop_map(Told::Applied),
        (0..4_u8).prop_map(Told::Deleted),
        any::<bool>().prop_map(Told::Failed),
    ];
    let step = prop_oneof![
        1 => proptest::collection::vec(0..3_usize, 0..3).prop_map(Step::Named),
        1 => Just(Step::SlicesFailed),
        6 => (0..3_usize, 0..2_usize, told).prop_map(|(url, index, told)| Step::Told(url, index, told)),
    ];
    proptest::collection::vec(step, 0..40)
}

/// Returns an object at an endpoint. Each endpoint has a cluster of its own.
fn object(url: usize, name: u8) -> (ObjectKey, Arc<Value>) {
    mk_object(&format!("c{url}"), &format!("n{name}"))
}

/// Replays the history for one resource at one endpoint. Returns the expected objects, and if the resource is loaded
/// and if it is hidden.
fn replay(history: &[Step], url: usize, index: usize) -> (BTreeSet<u8>, bool, bool) {
    let appeared = (0..history.len())
        .rev()
        .take_while(|step| !matches!(&history[*step], Step::Named(urls) if !urls.contains(&url)))
        .last()
        .and_then(|first| {
            (first..history.len()).find(|step| matches!(&history[*step], Step::Named(urls) if urls.contains(&url)))
        });
    let (mut objects, mut loaded, mut hidden) = (BTreeSet::new(), false, false);
    for step in appeared.map(|first| &history[first..]).unwrap_or_default() {
        match step {
            Step::Told(at, of, told) if (*at, *of) == (url, index) => match told {
                Told::Listed(names) => (objects, loaded, hidden) = (names.clone(), true, false),
                Told::Applied(name) => drop(objects.insert(*name)),
                Told::Deleted(name) => drop(objects.remove(name)),
                Told::Failed(true) if index == EXPORTS => (objects, loaded, hidden) = (BTreeSet::new(), false, true),
                Told::Failed(_) => {}
            },
            _ => {}
        }
    }
    (objects, loaded, hidden)
}

proptest! {
    #[test]
    fn a_ledger_knows_what_its_history_says(history in steps()) {
        let mut store = mk_ledger();
        for (done, step) in history.iter().enumerate() {
            match step {
                Step::Named(urls) => {
                    let urls: Vec<_> = urls.iter().map(|url| URLS[*url]).collect();
                    tell(&mut store, [slices([mk_slice("s", &urls)])]);
                }
                Step::SlicesFailed => tell(&mut store, [(Source::Slices, failed("503", false))]),
                Step::Told(url, index, told) => {
                    let change = match told {
                        Told::Listed(names) => Change::Listed(names.iter().map(|name| object(*url, *name)).collect()),
                        Told::Applied(name) => Change::Applied(object(*url, *name).0, object(*url, *name).1),
                        Told::Deleted(name) => Change::Deleted(object(*url, *name).0),
                        Told::Failed(hidden) => failed("failed", *hidden),
                    };
                    tell(&mut store, [(at(URLS[*url], *index), change)]);
                }
            }

            let history = &history[..=done];
            let named = history.iter().rev().find_map(|step| match step {
                Step::Named(urls) => Some(urls.clone()),
                _ => None,
            });
            let urls: BTreeSet<usize> = named.clone().unwrap_or_default().into_iter().collect();
            prop_assert_eq!(store.sources().len(), 1 + urls.len() * 2);
            let state = store.state();
            for (index, plural) in [(RULES, "dependencyrules"), (EXPORTS, "apiexports")] {
                let known: Vec<_> = urls.iter().map(|url| (*url, replay(history, *url, index))).collect();
                let expected: BTreeMap<_, _> = known
                    .iter()
                    .flat_map(|(url, (names, ..))| names.iter().map(|name| object(*url, *name)))
                    .collect();
                let resource = state.resource(plural).unwrap();
                let objects: BTreeMap<_, _> =
                    resource.objects.iter().map(|(key, object)| (key.clone(), Arc::new(object.text.read()))).collect();
                prop_assert_eq!(objects, expected);
                let loaded = named.is_some() && known.iter().all(|(_, (_, loaded, hidden))| *loaded && !hidden);
                prop_assert_eq!(resource.readiness == Readiness::Loaded, loaded);
                let hidden = named.is_some() && !loaded && known.iter().all(|(_, (_, loaded, hidden))| *loaded || *hidden);
                prop_assert_eq!(matches!(resource.readiness, Readiness::Unavailable { .. }), hidden);
            }
        }
    }
}
