//! depguard's accounts, with the rights of the manifests and no others.

use std::fmt;
use std::path::Path;

use depguard_controller::manifests::{self, Identity, Place, ReadThrough, Setup};
use depguard_core::{Home, LogicalCluster};
use serde_json::{Value, json};

use super::{Provider, World};
use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};

const NAMESPACE: &str = "depguard-system";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// One right that the manifests give: one verb of one rule, or the access to a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// Whose it is.
    pub(crate) account: String,
    place: Place,
    /// Kind and name of the object that gives it.
    object: (String, String),
    /// Which of its rules, and the verb. `None`: the object is the binding to a role that is not ours.
    rule: Option<(usize, String)>,
    what: String,
}

/// The name of the role that an operator would make for the dependents of his rules.
const DEPENDENTS: &str = "dependents";

impl Right {
    /// All that `setup` gives. In home kubernetes with the one to list dependents, which operators grant.
    pub(crate) fn all(setup: &Setup) -> Vec<Right> {
        let mut rights = Vec::new();
        for (place, objects) in manifests::rbac(setup) {
            let holders: Vec<_> = objects.iter().filter_map(holder).collect();
            // A role that is bound to nobody is for users.
            let of_role = |name: &Value| holders.iter().find(|(role, _)| *role == name).map(|(_, account)| *account);
            for object in &objects {
                let account = holder(object).map(|(_, account)| account).or(of_role(&object["metadata"]["name"]));
                rights.extend(account.into_iter().flat_map(|account| Right::of(place, object, account)));
            }
        }
        if setup.home == Home::Kubernetes {
            let role = dependents("", &[("the rules' dependents".to_owned(), String::new())]);
            rights.extend(Right::of(Place::Cluster, &role, "depguard-webhook"));
        }
        rights
    }

    fn of(place: Place, object: &Value, account: &str) -> Vec<Right> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let right =
            |rule, what| Right { account: account.to_owned(), place, object: (kind.clone(), name.clone()), rule, what };
        match kind.as_str() {
            "ClusterRole" | "Role" => {
                let rules = object["rules"].as_array().into_iter().flatten().enumerate();
                let each = rules.flat_map(|(index, rule)| {
                    let verbs = rule["verbs"].as_array().cloned().unwrap_or_default();
                    let what = Right::describe(rule, object["metadata"]["namespace"].as_str());
                    verbs.into_iter().map(move |verb| (index, text(&verb), what.clone()))
                });
                each.map(|(index, verb, what)| right(Some((index, verb)), what)).collect()
            }
            "ClusterRoleBinding" if object["roleRef"]["name"] == "system:kcp:workspace:access" => {
                vec![right(None, "workspaces".to_owned())]
            }
            _ => Vec::new(),
        }
    }

    fn describe(rule: &Value, namespace: Option<&str>) -> String {
        let group = rule["apiGroups"][0].as_str().unwrap_or_default();
        let resources: Vec<_> = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let resource = resources.join("`, `");
        let dot = if group.is_empty() { "" } else { "." };
        let names = rule["resourceNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let name = if names.is_empty() { String::new() } else { format!(" named {}", names.join(" or ")) };
        let namespace = namespace.map(|namespace| format!(" in namespace `{namespace}`")).unwrap_or_default();
        format!("`{resource}{dot}{group}`{name}{namespace}")
    }

    /// Takes this right out of an object of the manifests. `None`: then nothing is left of the object.
    fn taken_from(&self, place: Place, mut object: Value) -> Option<Value> {
        let (kind, name) = &self.object;
        if self.place != place || object["kind"] != *kind || object["metadata"]["name"] != *name {
            return Some(object);
        }
        let (index, verb) = self.rule.as_ref()?;
        let rules = object["rules"].as_array_mut()?;
        let verbs = rules.get_mut(*index)?["verbs"].as_array_mut()?;
        verbs.retain(|given| given != verb);
        if verbs.is_empty() {
            rules.remove(*index);
        }
        Some(object)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.rule.as_ref().map_or("access", |(_, verb)| verb);
        let place = match self.place {
            Place::Cluster => "",
            Place::DepCtrl => " in depguard's workspace",
            Place::Parents => " in providers' parents",
            Place::Shards => " on each shard",
            Place::Providers => " in each provider's workspace",
        };
        write!(f, "`{verb}` {}{place}", self.what)
    }
}

/// The role that a binding grants, and the account that gets it.
fn holder(binding: &Value) -> Option<(&Value, &str)> {
    let user = binding["subjects"][0]["name"].as_str()?;
    // What a ServiceAccount is called where it is a user ends with its name.
    Some((&binding["roleRef"]["name"], user.rsplit(':').next()?))
}

impl World {
    /// What depguard is set up for here.
    pub(crate) async fn setup(&self) -> Outcome<Setup> {
        if !self.is_kcp() {
            let mut enable = self.features();
            if enable.locks {
                // Which kinds the older tool's locks guard makes no difference to the rights.
                enable.compat_lock_kinds = ["pods".parse()?].into();
            }
            return Ok(Setup { enable, ..Setup::new(Home::Kubernetes, ReadThrough::FrontProxy) });
        }
        let exports = self.ring.kind().reads_through_exports();
        let way = if exports { ReadThrough::Export } else { ReadThrough::FrontProxy };
        let itself = self.home().get(LOGICAL_CLUSTER).await?.ok()?;
        let cluster = itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default();
        let identity = Identity::ServiceAccounts { cluster: Some(LogicalCluster::parse(cluster)?) };
        let (dep_ctrl_path, enable) = (self.home_path(), self.features());
        Ok(Setup { dep_ctrl_path, identity, enable, ..Setup::new(Home::Kcp, way) })
    }

    /// Gives depguard's accounts what the manifests say, but for what this world lacks.
    pub(super) async fn grant_home(&self) -> Outcome {
        let setup = self.setup().await?;
        for (place, objects) in manifests::rbac(&setup) {
            let api = match place {
                Place::Cluster | Place::DepCtrl => self.home(),
                Place::Shards => self.ring.masters().await?.at("/clusters/system:admin"),
                // Once there are some.
                Place::Parents | Place::Providers => continue,
            };
            self.grant(&api, place, objects, &setup).await?;
        }
        Ok(())
    }

    /// Lets the webhook read a provider's kinds: in home kubernetes as an operator would, in home kcp as the provider
    /// would where dependents are read through exports.
    pub(super) async fn grant_dependents(&self, provider: &Provider) -> Outcome {
        let setup = self.setup().await?;
        if self.is_kcp() {
            for (place, objects) in manifests::rbac(&setup).into_iter().filter(|(place, _)| *place == Place::Providers)
            {
                self.grant(&provider.api, place, objects, &setup).await?;
            }
            return Ok(());
        }
        let kinds: Vec<_> = provider.kinds().iter().map(|kind| (kind.plural.to_owned(), kind.group.clone())).collect();
        let role = dependents(&format!("-{}", provider.export), &kinds);
        self.grant_reading(&role).await
    }

    /// Lets the webhook read a kind of a provider's workspace itself, as whoever writes a rule about it would where exports
    /// are read through.
    pub async fn grant_local(&self, provider: &Provider, group: &str, resource: &str) -> Outcome {
        let setup = self.setup().await?;
        let providers = manifests::rbac(&setup).into_iter().filter(|(place, _)| *place == Place::Providers);
        for mut object in providers.flat_map(|(_, objects)| objects) {
            if object["kind"] == "ClusterRole" {
                object["rules"] = json!([{"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]}]);
            }
            tell_apart(&mut object, &format!("{resource}.{group}"));
            put_up(&provider.api, &object).await?;
        }
        Ok(())
    }

    /// Adds a ClusterRole to what the webhook may read in home kubernetes, and waits until it counts.
    pub async fn grant_reading(&self, role: &Value) -> Outcome {
        let mut role = role.clone();
        if let Some(Right { object: (_, name), rule: Some((_, lacking)), .. }) = &self.terms.lacks
            && name == DEPENDENTS
        {
            for verbs in role["rules"].as_array_mut().into_iter().flatten().map(|rule| &mut rule["verbs"]) {
                if let Some(verbs) = verbs.as_array_mut() {
                    verbs.retain(|verb| verb != lacking);
                }
            }
        }
        let role = &role;
        self.home().post(&format!("{RBAC}/clusterroles"), role).await?.ok_or_there()?;
        if !self.ring.has_controllers() {
            // Nobody sums up roles here; for a test it is enough to do so by hand.
            let sum = json!({"rules": role["rules"]});
            let path = format!("{RBAC}/clusterroles/depguard-webhook-dependents");
            return self.home().merge(&path, &sum).await?.ok().map(drop);
        }
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        eventually("the role is summed up", self.ring_patience(), async || {
            let sum = self.home().get(&format!("{RBAC}/clusterroles/depguard-webhook-dependents")).await?.ok()?;
            let has = |rule: &Value| sum["rules"].as_array().into_iter().flatten().any(|one| one == rule);
            if rules.iter().all(has) { Ok(()) } else { Err(Stop::Failed(format!("rules are {}", sum["rules"]))) }
        })
        .await
    }

    /// Writes the kubeconfigs of depguard's accounts and of the administrator, all pointing home.
    pub(crate) async fn write_kubeconfigs(&self, folder: &Path) -> Outcome {
        for account in ["controller", "webhook"] {
            let token = self.token(&format!("depguard-{account}")).await?;
            let file = folder.join(format!("{account}.kubeconfig"));
            self.ring.write_kubeconfig_of(&token, &self.home_path(), &file)?;
        }
        self.ring.write_kubeconfig(&self.home_path(), &folder.join("kubeconfig"))
    }

    /// A token of a ServiceAccount. On the testbed that is a name.
    async fn token(&self, account: &str) -> Outcome<String> {
        if self.ring.kind().is_testbed() {
            return Ok(match self.setup().await?.identity {
                Identity::ServiceAccounts { cluster: Some(cluster) } => {
                    format!("system:kcp:serviceaccount:{cluster}:{NAMESPACE}:{account}")
                }
                _ => format!("system:serviceaccount:{NAMESPACE}:{account}"),
            });
        }
        ask_for_token(&self.home(), NAMESPACE, account).await
    }

    /// A token of a ServiceAccount of a namespace that `place` can see.
    pub(super) async fn token_of(&self, place: &Api, namespace: &str, account: &str) -> Outcome<String> {
        if !self.ring.kind().is_testbed() {
            return ask_for_token(place, namespace, account).await;
        }
        if !self.is_kcp() {
            return Ok(format!("system:serviceaccount:{namespace}:{account}"));
        }
        let itself = place.get(LOGICAL_CLUSTER).await?.ok()?;
        let cluster = itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default();
        Ok(format!("system:kcp:serviceaccount:{cluster}:{namespace}:{account}"))
    }

    /// How many lists of each of these resources, named by group and plural, one of depguard's accounts has begun; `None`
    /// where the server doesn't tell.
    pub async fn lists(&self, account: &str, resources: &[(&str, &str)]) -> Outcome<Option<Vec<u64>>> {
        if self.ring.kind().is_testbed() {
            let token = self.token(account).await?;
            let counts = self.ring.in_process().map(|testbed| {
                let begun = |(group, resource): &(&str, &str)| testbed.lists_by(&token, group, resource).begun;
                resources.iter().map(begun).collect()
            });
            return Ok(counts);
        }
        if self.is_kcp() {
            return Ok(None);
        }
        // Hardly anybody else is there to list depguard's own kinds.
        let metrics = self.home().get("/metrics").await?.ok()?;
        let metrics = metrics.as_str().unwrap_or_default();
        let lists: Vec<_> = metrics
            .lines()
            .filter(|line| line.starts_with("apiserver_request_total{") && line.contains("verb=\"LIST\""))
            .collect();
        let begun = |(group, resource): &(&str, &str)| {
            let labels = [format!("group=\"{group}\""), format!("resource=\"{resource}\"")];
            let counts = lists.iter().filter(|line| labels.iter().all(|label| line.contains(label.as_str())));
            counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Ok(Some(resources.iter().map(begun).collect()))
    }

    async fn grant(&self, api: &Api, place: Place, objects: Vec<Value>, setup: &Setup) -> Outcome {
        for object in objects {
            let left = match &self.terms.lacks {
                Some(right) => right.taken_from(place, object),
                None => Some(object),
            };
            if let Some(mut object) = left {
                // Many worlds, each with a depguard of its own, share a shard here.
                if place == Place::Shards
                    && let Identity::ServiceAccounts { cluster: Some(cluster) } = &setup.identity
                {
                    tell_apart(&mut object, cluster.as_str());
                }
                put_up(api, &object).await?;
            }
        }
        Ok(())
    }
}

async fn ask_for_token(place: &Api, namespace: &str, account: &str) -> Outcome<String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200},
    });
    let token = place.post(&path, &request).await?.ok()?;
    Ok(token["status"]["token"].as_str().unwrap_or_default().to_owned())
}

/// A ClusterRole by which the webhook may list these, each a resource and its group.
fn dependents(suffix: &str, kinds: &[(String, String)]) -> Value {
    let rules: Vec<Value> = kinds
        .iter()
        .map(|(resource, group)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{DEPENDENTS}{suffix}"), "labels": {manifests::AGGREGATE: "true"}},
        "rules": rules,
    })
}

/// Makes the name of an object of ours unlike that of another one like it.
fn tell_apart(object: &mut Value, suffix: &str) {
    for pointer in ["/metadata/name", "/roleRef/name"] {
        if let Some(name) = object.pointer_mut(pointer)
            && let Some(ours) = name.as_str().filter(|name| name.starts_with("depguard-"))
        {
            *name = json!(format!("{ours}-{suffix}"));
        }
    }
}

/// Creates an object, or makes it as it should be.
async fn put_up(api: &Api, object: &Value) -> Outcome {
    let kind = object["kind"].as_str().unwrap_or_default();
    let plural = format!("{}s", kind.to_lowercase());
    let group = if object["apiVersion"] == "v1" { "/api/v1" } else { RBAC };
    let collection = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    };
    // A new workspace needs a moment until it has everything.
    eventually("the rights are granted", std::time::Duration::from_secs(30), async || {
        let reply = api.post(&collection, object).await?;
        if reply.status != 409 {
            return reply.ok().map(drop);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        api.merge(&format!("{collection}/{name}"), object).await?.ok().map(drop)
    })
    .await
}
