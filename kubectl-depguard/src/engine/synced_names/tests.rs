use proptest::prelude::*;

use super::*;

const HERE: Original<'static> =
    Original { cluster: "testcluster", path: Some("root:test:team"), namespace: Some("objnamespace"), name: "objname" };

fn copied(agent: Agent, namespace: &str, name: &str) -> (String, String) {
    let copied = Naming::parse(agent, Some(namespace), Some(name)).unwrap().copy(&HERE).unwrap();
    (copied.namespace, copied.name)
}

#[test]
fn copies_are_named_as_the_agents_do() {
    use Agent::{Servlet, SyncAgent};
    const SHA1: &str = "e75ee3d444e238331f6a-8b09d63c82efb771a2c5";
    const SHA3: &str = "2928c2aa0e510f017f07-73d08a1ba188f1340dae";
    for (agent, namespace, name, expected) in [
        (Servlet, "", "", ("testcluster", SHA1)),
        (SyncAgent, "", "", ("testcluster", SHA3)),
        (SyncAgent, "", "$remoteNamespaceHash-$remoteNameHash", ("testcluster", SHA1)),
        (Servlet, "kube-system", "", ("kube-system", SHA1)),
        (Servlet, "on-$remoteClusterName", "$remoteName", ("on-testcluster", "objname")),
        (Servlet, "$remoteNamespace", "$remoteNames", ("objnamespace", "objnames")),
        // The longest placeholder counts, and a text that is no placeholder stays.
        (Servlet, "$remoteNamespaces", "$remoteNam$$remoteName-$", ("objnamespaces", "$remoteNam$objname-$")),
        // A Servlet has no templates, and a template has no placeholders.
        (Servlet, "x", "{{ .ClusterName }}", ("x", "{{ .ClusterName }}")),
        (SyncAgent, "x", "$remoteName-{{ .ClusterName }}", ("x", "$remoteName-testcluster")),
        (SyncAgent, " {{.ClusterPath}} ", "{{ .Object.metadata.name|shortHash }}", ("root:test:team", &SHA1[21..])),
        (
            SyncAgent,
            "{{ .ClusterName }}",
            "{{ .Object.metadata.namespace | sha3short }}-{{ .Object.metadata.name | sha3short }}",
            ("testcluster", SHA3),
        ),
    ] {
        let (own_namespace, own_name) = copied(agent, namespace, name);
        assert_eq!((own_namespace.as_str(), own_name.as_str()), expected, "{namespace} {name}");
    }
}

#[test]
fn what_a_template_makes_is_told_or_said_to_be_unknown() {
    for template in [
        "{{ .Object.spec.name }}",
        "{{ .ClusterName | sha3short }}",
        "{{ .Object.metadata.name | sha3short 8 }}",
        "{{ .Object.metadata.name | sha3short | sha3short }}",
        "{{- .ClusterName }}",
        "{{ if true }}a{{ end }}",
        "{{ .ClusterName",
        "{{",
        "{{}}",
    ] {
        let error = Naming::parse(Agent::SyncAgent, None, Some(template)).unwrap_err();
        assert_eq!(error.pattern, template);
        assert!(error.to_string().contains("`{{ .ClusterName }}`"), "{error}");
    }
}

#[test]
fn a_cluster_scoped_object_has_a_name_as_far_as_its_agent_gives_one() {
    let original = Original { namespace: None, path: None, ..HERE };
    let copy = |agent, name| Naming::parse(agent, None, name).unwrap().copy(&original).map(|copied| copied.name);
    assert_eq!(copy(Agent::Servlet, None), Ok("da39a3ee5e6b4b0d3255-8b09d63c82efb771a2c5".to_owned()));
    assert_eq!(copy(Agent::SyncAgent, None), Err(NoName::NoNamespace));
    assert_eq!(copy(Agent::SyncAgent, Some("{{ .ClusterPath }}")), Err(NoName::NoPath));
    assert_eq!(copy(Agent::SyncAgent, Some("a-$remoteNamespace")), Ok("a-".to_owned()));
}

#[test]
fn a_copy_is_found_by_the_labels_of_its_agent() {
    assert_eq!(
        Agent::SyncAgent.labels(&HERE),
        BTreeMap::from([
            ("syncagent.kcp.io/remote-object-cluster", "testcluster".to_owned()),
            ("syncagent.kcp.io/remote-object-name-hash", "8b09d63c82efb771a2c54aaf62bfdec1e7d3e504".to_owned()),
            ("syncagent.kcp.io/remote-object-namespace-hash", "e75ee3d444e238331f6a1f56799841d5f06e20e6".to_owned()),
        ])
    );
    let unplaced = Original { namespace: None, ..HERE };
    assert_eq!(Agent::SyncAgent.labels(&unplaced).len(), 2);
    assert_eq!(Agent::Servlet.labels(&unplaced)["servlet.kdp.k8c.io/remote-object-namespace"], "");
    assert_eq!(Agent::Servlet.labels(&HERE)["servlet.kdp.k8c.io/remote-object-name"], "objname");
}

/// The documentation calls these namings unique only as long as the namespace contains the logical cluster.
#[test]
fn a_naming_of_ones_own_may_give_two_objects_one_copy() {
    for (namespace, name, other) in [
        // The same object in another workspace.
        ("kube-system", "", Original { cluster: "other", ..HERE }),
        // `objname-x` in `objnamespace`, and `x` in `objnamespace-objname`.
        ("", "$remoteNamespace-$remoteName", Original { namespace: Some("objnamespace-objname"), name: "x", ..HERE }),
        ("", "$remoteName", Original { namespace: Some("other"), ..HERE }),
        ("", "{{ .Object.metadata.namespace | sha3short }}", Original { name: "other", ..HERE }),
    ] {
        let naming = Naming::parse(Agent::SyncAgent, Some(namespace), Some(name)).unwrap();
        let here = match other.name {
            "x" => Original { name: "objname-x", ..HERE },
            _ => HERE,
        };
        assert_ne!(here, other);
        assert_eq!(naming.copy(&here), naming.copy(&other), "{namespace} {name}");
    }
}

/// Generates the name of a namespace or an object. The names are few and short, so that two of them are often nearly
/// the same.
fn name() -> impl Strategy<Value = String> {
    "[ab-]{0,3}[ab]"
}

fn original() -> impl Strategy<Value = (String, String, String)> {
    (name(), name(), name())
}

proptest! {
    /// Both defaults, and the example that moves the cluster into the name, give each object a copy of its own.
    #[test]
    fn two_objects_have_two_copies(
        a in original(),
        b in original(),
        which in 0..3_usize,
    ) {
        let naming = match which {
            0 => Naming::default_of(Agent::Servlet),
            1 => Naming::default_of(Agent::SyncAgent),
            // Logical clusters have no `-`. If one had, the hashes would still end the name unambiguously.
            _ => Naming::parse(
                Agent::Servlet,
                Some("kube-system"),
                Some("$remoteClusterName-$remoteNamespaceHash-$remoteNameHash"),
            ).unwrap(),
        };
        let copy = |(cluster, namespace, name): &(String, String, String)| {
            naming.copy(&Original { cluster, path: None, namespace: Some(namespace), name }).unwrap()
        };
        prop_assert_eq!(a == b, copy(&a) == copy(&b));
    }

    #[test]
    fn two_objects_have_different_labels(a in original(), b in original(), servlet: bool) {
        let agent = if servlet { Agent::Servlet } else { Agent::SyncAgent };
        let labels = |(cluster, namespace, name): &(String, String, String)| {
            agent.labels(&Original { cluster, path: None, namespace: Some(namespace), name })
        };
        prop_assert_eq!(a == b, labels(&a) == labels(&b));
    }

    #[test]
    fn what_holds_no_placeholder_is_a_name_itself(text in "[^$]{1,12}") {
        let copied = Naming::parse(Agent::Servlet, None, Some(&text)).unwrap().copy(&HERE).unwrap();
        prop_assert_eq!(copied.name, text);
    }

    #[test]
    fn no_naming_makes_it_panic(text in r"[${}|. a-zA-Zäremote]{0,24}", servlet: bool) {
        let agent = if servlet { Agent::Servlet } else { Agent::SyncAgent };
        if let Ok(naming) = Naming::parse(agent, Some(&text), Some(&text)) {
            let _ = naming.copy(&HERE);
        }
    }

    /// Go replaces in one pass, and takes the first placeholder that fits; the naive loop in this test does the same.
    #[test]
    fn placeholders_are_replaced_as_go_does(text in r"(\$remote(Name(space)?(Hash)?|ClusterName)|[$a-z-]){0,6}") {
        let mut expected = String::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let values = [
                ("$remoteClusterName", "testcluster"),
                ("$remoteNamespaceHash", "e75ee3d444e238331f6a"),
                ("$remoteNamespace", "objnamespace"),
                ("$remoteNameHash", "8b09d63c82efb771a2c5"),
                ("$remoteName", "objname"),
            ];
            let found = values.iter().find(|(name, _)| rest.starts_with(name));
            expected.push_str(found.map_or(&rest[..1], |(_, value)| value));
            at += found.map_or(1, |(name, _)| name.len());
        }
        prop_assume!(!text.is_empty());
        let copied = Naming::parse(Agent::Servlet, None, Some(&text)).unwrap().copy(&HERE).unwrap();
        prop_assert_eq!(copied.name, expected);
    }
}
