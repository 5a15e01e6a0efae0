//! depguard's accounts, with exactly the rights of the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::PoisonError;

use depguard_controller::manifests::{self, Identity, Place, ReadThrough, Setup};
use depguard_core::{ControlPlane, LogicalCluster};
use serde_json::{Value, json};

use super::{Provider, Resource, World, logical_cluster};
use crate::api::{Api, collection_of};
use crate::outcome::{Outcome, Stop, eventually};

const NAMESPACE: &str = "depguard-system";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// One right in the manifests: one verb of one rule, or the access to a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// The account that holds the right.
    pub(crate) account: String,
    place: Place,
    /// Kind and name of the object that grants the right.
    object: (String, String),
    /// The index of the rule in that object, and the verb. `None`: the object is the binding to a role of kcp's.
    rule: Option<(usize, String)>,
    what: String,
}

/// Roles that an operator makes for the kinds of their rules, and the role of the manifests that adds them up.
#[derive(Clone, Copy)]
struct OfKinds {
    name: &'static str,
    label: &'static str,
    sum: &'static str,
    account: &'static str,
    verbs: &'static [&'static str],
}

/// Role by which the webhook reads dependents.
const DEPENDENTS: OfKinds = OfKinds {
    name: "dependents",
    label: manifests::AGGREGATE,
    sum: "depguard-webhook-dependents",
    account: "depguard-webhook",
    verbs: &["get", "list"],
};
/// The same role with the interlock.
const INTERLOCKED: OfKinds = OfKinds { verbs: &["get", "list", "watch"], ..DEPENDENTS };
/// Role by which the controller counts references.
const COUNTED: OfKinds = OfKinds {
    name: "counted",
    label: manifests::AGGREGATE_TO_CONTROLLER,
    sum: "depguard-controller-references",
    account: "depguard-controller",
    verbs: &["list", "watch"],
};

fn dependents(setup: &Setup) -> OfKinds {
    if setup.enable.registers.is_some() { INTERLOCKED } else { DEPENDENTS }
}

impl Right {
    /// Returns all rights that `setup` gives. On a plain cluster, these include the right to list dependents, which
    /// operators grant.
    pub(crate) fn all(setup: &Setup) -> Vec<Right> {
        let mut rights = Vec::new();
        for (place, objects) in manifests::rbac(setup) {
            let holders: Vec<_> = objects.iter().filter_map(holder).collect();
            // A role without a binding is for users.
            let of_role = |name: &Value| holders.iter().find(|(role, _)| *role == name).map(|(_, account)| *account);
            for object in &objects {
                let account = holder(object).map(|(_, account)| account).or(of_role(&object["metadata"]["name"]));
                rights.extend(account.into_iter().flat_map(|account| Right::from_role(place, object, account)));
            }
        }
        if setup.control_plane == ControlPlane::Kubernetes {
            for (of_kinds, what) in [(dependents(setup), "the rules' dependents"), (COUNTED, "what is counted")] {
                let role = of_kinds.role("", &[(what.to_owned(), String::new())]);
                rights.extend(Right::from_role(Place::Cluster, &role, of_kinds.account));
            }
        }
        rights
    }

    fn from_role(place: Place, object: &Value, account: &str) -> Vec<Right> {
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

    /// Removes this right from an object of the manifests. Returns `None` if nothing is left of the object.
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

/// Returns the role that a binding grants, and the account that gets the role.
fn holder(binding: &Value) -> Option<(&Value, &str)> {
    let user = binding["subjects"][0]["name"].as_str()?;
    // The user name of a ServiceAccount ends with the account's name.
    Some((&binding["roleRef"]["name"], user.rsplit(':').next()?))
}

impl World {
    /// Returns depguard's setup in this world.
    pub(crate) async fn setup(&self) -> Outcome<Setup> {
        if !self.is_kcp() {
            let mut enable = self.features();
            if enable.locks {
                // The kinds that the older tool's locks guard make no difference to the rights.
                enable.compat_lock_kinds = ["pods".parse()?].into();
            }
            return Ok(Setup { enable, ..Setup::new(ControlPlane::Kubernetes, ReadThrough::FrontProxy) });
        }
        let exports = self.ring.kind().reads_through_exports();
        let way = if exports { ReadThrough::Export } else { ReadThrough::FrontProxy };
        let cluster = logical_cluster(&self.own_cluster()).await?;
        let identity = Identity::ServiceAccounts { cluster: Some(LogicalCluster::parse(&cluster)?) };
        let (dep_ctrl_path, enable) = (self.own_path(), self.features());
        Ok(Setup { dep_ctrl_path, identity, enable, ..Setup::new(ControlPlane::Kcp, way) })
    }

    /// Gives depguard's accounts the rights of the manifests, except the right that this world lacks.
    pub(super) async fn grant_rights(&self) -> Outcome {
        let setup = self.setup().await?;
        for (place, objects) in manifests::rbac(&setup) {
            let apis = match place {
                Place::Cluster | Place::DepCtrl => vec![self.own_cluster()],
                Place::Shards => self.ring.masters_of_shards().await?,
                // No provider exists yet.
                Place::Parents | Place::Providers => continue,
            };
            for api in apis {
                let api = if place == Place::Shards { api.at("/clusters/system:admin") } else { api };
                self.grant(&api, place, objects.clone(), &setup).await?;
            }
        }
        Ok(())
    }

    /// Lets the webhook read a provider's kinds. On a plain cluster, the operator would grant this; on kcp, the
    /// provider would, if depguard reads dependents through exports.
    pub(super) async fn grant_dependents(&self, provider: &Provider) -> Outcome {
        let setup = self.setup().await?;
        if self.is_kcp() {
            for (place, objects) in manifests::rbac(&setup).into_iter().filter(|(place, _)| *place == Place::Providers)
            {
                self.grant(&provider.api, place, objects, &setup).await?;
            }
            return Ok(());
        }
        self.grant_kinds(dependents(&setup), &format!("-{}", provider.export), provider.kinds()).await
    }

    /// Lets the controller of a plain cluster watch these kinds, as an operator would for a rule whose references are
    /// counted.
    pub async fn grant_counting(&self, kinds: &[&Resource]) -> Outcome {
        let kinds: Vec<_> = kinds.iter().map(|&kind| kind.clone()).collect();
        // Worlds share a cluster, and a role that another world has left there names the kinds of that world.
        self.grant_kinds(COUNTED, &format!("-{}", self.id), &kinds).await
    }

    async fn grant_kinds(&self, of_kinds: OfKinds, suffix: &str, kinds: &[Resource]) -> Outcome {
        let kinds: Vec<_> = kinds.iter().map(|kind| (kind.plural.to_owned(), kind.group.clone())).collect();
        self.add_role(of_kinds, &of_kinds.role(suffix, &kinds)).await
    }

    /// Lets the webhook read a kind in a provider's own workspace, as the author of a rule about that kind would if
    /// depguard reads through exports.
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

    /// Adds a ClusterRole to the webhook's rights on a plain cluster, until the world ends, and waits until the role takes
    /// effect.
    pub async fn grant_reading(&self, role: &Value) -> Outcome {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{RBAC}/clusterroles/{name}");
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        self.add_role(DEPENDENTS, role).await
    }

    async fn add_role(&self, of_kinds: OfKinds, role: &Value) -> Outcome {
        let mut role = role.clone();
        if let Some(Right { object: (_, name), rule: Some((_, lacking)), .. }) = &self.terms.lacks
            && name == of_kinds.name
        {
            for verbs in role["rules"].as_array_mut().into_iter().flatten().map(|rule| &mut rule["verbs"]) {
                if let Some(verbs) = verbs.as_array_mut() {
                    verbs.retain(|verb| verb != lacking);
                }
            }
        }
        let role = &role;
        self.own_cluster().post(&format!("{RBAC}/clusterroles"), role).await?.ok_or_there()?;
        if !self.ring.has_controllers() {
            // No controller aggregates roles here; merging the rules by hand is enough for a test.
            let sum = json!({"rules": role["rules"]});
            let path = format!("{RBAC}/clusterroles/{}", of_kinds.sum);
            return self.own_cluster().merge(&path, &sum).await?.ok().map(drop);
        }
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        eventually("the role is summed up", self.ring_patience(), async || {
            let sum = self.own_cluster().get(&format!("{RBAC}/clusterroles/{}", of_kinds.sum)).await?.ok()?;
            let has = |rule: &Value| sum["rules"].as_array().into_iter().flatten().any(|one| one == rule);
            if rules.iter().all(has) { Ok(()) } else { Err(Stop::Failed(format!("rules are {}", sum["rules"]))) }
        })
        .await
    }

    /// Writes the kubeconfigs of depguard's accounts and of the administrator, all for depguard's own workspace or the
    /// one cluster.
    pub(crate) async fn write_kubeconfigs(&self, folder: &Path) -> Outcome {
        for account in ["controller", "webhook"] {
            let token = self.token(&format!("depguard-{account}")).await?;
            let file = folder.join(format!("{account}.kubeconfig"));
            self.ring.write_kubeconfig_of(&token, &self.own_path(), &file)?;
        }
        self.ring.write_kubeconfig(&self.own_path(), &folder.join("kubeconfig"))
    }

    /// Returns a token of one of depguard's ServiceAccounts. On the testbed, the token is the user name.
    pub(super) async fn token(&self, account: &str) -> Outcome<String> {
        if self.ring.kind().is_testbed() {
            return Ok(match self.setup().await?.identity {
                Identity::ServiceAccounts { cluster: Some(cluster) } => {
                    format!("system:kcp:serviceaccount:{cluster}:{NAMESPACE}:{account}")
                }
                _ => format!("system:serviceaccount:{NAMESPACE}:{account}"),
            });
        }
        ask_for_token(&self.own_cluster(), NAMESPACE, account).await
    }

    /// Returns a token of a ServiceAccount in a namespace that `place` can see.
    pub(super) async fn token_of(&self, place: &Api, namespace: &str, account: &str) -> Outcome<String> {
        if !self.ring.kind().is_testbed() {
            return ask_for_token(place, namespace, account).await;
        }
        if !self.is_kcp() {
            return Ok(format!("system:serviceaccount:{namespace}:{account}"));
        }
        let cluster = logical_cluster(place).await?;
        Ok(format!("system:kcp:serviceaccount:{cluster}:{namespace}:{account}"))
    }

    /// Counts the requests for objects by one of depguard's accounts, by verb; `None` if the server doesn't count them.
    pub async fn requests(&self, account: &str) -> Outcome<Option<BTreeMap<String, u64>>> {
        let token = self.token(account).await?;
        Ok(self.ring.in_process().map(|testbed| testbed.requests_by(&token)))
    }

    /// Counts the lists of each of these resources (group and plural) that one of depguard's accounts has begun; `None`
    /// if the server doesn't count them. A real kube-apiserver counts the lists of all accounts together.
    pub async fn lists(&self, account: &str, resources: &[(&str, &str)]) -> Outcome<Option<Vec<u64>>> {
        if let Some(testbed) = self.ring.in_process() {
            let token = self.token(account).await?;
            let begun = |(group, resource): &(&str, &str)| testbed.lists_by(&token, group, resource).begun;
            return Ok(Some(resources.iter().map(begun).collect()));
        }
        if self.is_kcp() {
            return Ok(None);
        }
        // Hardly any other client lists depguard's own kinds, so the counts of all clients will do.
        let metrics = self.own_cluster().get("/metrics").await?.ok()?;
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

    /// Returns the paths on which the last watch of one of these resources (group and plural) by one of depguard's
    /// accounts was refused. Only the testbed knows them; for other servers none is returned.
    pub async fn refused_watches(&self, account: &str, resources: &[(&str, &str)]) -> Outcome<BTreeSet<String>> {
        let Some(testbed) = self.ring.in_process() else { return Ok(BTreeSet::new()) };
        let token = self.token(account).await?;
        let refused = |(group, resource): &(&str, &str)| testbed.refused_watches_by(&token, group, resource);
        Ok(resources.iter().flat_map(refused).collect())
    }

    async fn grant(&self, api: &Api, place: Place, objects: Vec<Value>, setup: &Setup) -> Outcome {
        for object in objects {
            let left = match &self.terms.lacks {
                Some(right) => right.taken_from(place, object),
                None => Some(object),
            };
            if let Some(mut object) = left {
                // Several worlds, each with its own depguard, share a shard here.
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

impl OfKinds {
    /// Builds the ClusterRole for these kinds, each a resource and its group.
    fn role(self, suffix: &str, kinds: &[(String, String)]) -> Value {
        let rules: Vec<Value> = kinds
            .iter()
            .map(|(resource, group)| json!({"apiGroups": [group], "resources": [resource], "verbs": self.verbs}))
            .collect();
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("{}{suffix}", self.name), "labels": {self.label: "true"}},
            "rules": rules,
        })
    }
}

/// Appends `suffix` to depguard's own names in an object, so that several of these objects can exist side by side.
fn tell_apart(object: &mut Value, suffix: &str) {
    for pointer in ["/metadata/name", "/roleRef/name"] {
        if let Some(name) = object.pointer_mut(pointer)
            && let Some(ours) = name.as_str().filter(|name| name.starts_with("depguard-"))
        {
            *name = json!(format!("{ours}-{suffix}"));
        }
    }
}

/// Creates an object, or merges it into the existing one.
async fn put_up(api: &Api, object: &Value) -> Outcome {
    let collection = collection_of(object);
    // A new workspace takes a moment to serve everything.
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
