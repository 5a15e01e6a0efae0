//! The scenarios; each runs on every ring where it makes sense.

mod api_servers;
mod attacks;
mod beside;
mod binaries;
mod checked;
mod conformance;
mod cycles;
mod deletion;
mod doors;
mod election;
mod enforced;
mod events;
mod eviction;
mod files;
mod finalizers;
mod forged;
mod gate;
mod gitops;
mod hostile;
mod installation;
mod killed;
mod kubectl;
mod language;
mod liar;
mod lifecycle;
mod load;
mod local;
mod locks;
mod lookups;
mod missing;
mod newer;
mod old_rights;
mod options;
mod owned;
mod owners;
mod pairs;
mod policy;
mod published;
mod races;
mod reading;
mod references;
mod registers;
mod renamed;
mod rollouts;
mod rule_grants;
mod schema;
mod shards;
mod stored;
mod strangers;
mod switching;
mod teardown;
mod tokens;
mod uninstalling;
mod upgrade;
mod waiting;

use depguard_e2e::Scenario;
use depguard_e2e::runner;

fn main() {
    let scenarios = [
        Scenario::new("a referenced object is denied by name and a free one deleted", deletion::referenced)
            .on_shards_too(),
        Scenario::new("a collection delete stops at a referenced object", deletion::collection).on_shards_too(),
        Scenario::new("any served version of the target is protected", deletion::another_version),
        Scenario::new("a cluster-scoped dependent protects a namespaced target", deletion::cluster_scoped_dependent)
            .alone(),
        Scenario::new("a cluster-scoped target is protected from all namespaces", deletion::cluster_scoped_target)
            .alone(),
        Scenario::new("1,500 blockers give a readable message", deletion::many_blockers),
        Scenario::new("the same kind of another provider is not touched", deletion::another_provider).on_kcp().alone(),
        Scenario::new("a provider may lie deep in the tree", deletion::nested_provider).on_kcp().alone(),
        Scenario::new("a reference may stand in a list", language::lists).on_shards_too(),
        Scenario::new("Orders of Artifact Conduit keep their Endpoints", language::endpoints_of_an_order),
        Scenario::new("a reference may name another namespace", language::other_namespace),
        Scenario::new("a typed reference protects the kind that it names", language::typed),
        Scenario::new("several references may stand in one string", language::several_in_a_string).on_shards_too(),
        Scenario::new("references may stand in JSON that a string holds", language::json_in_a_string),
        Scenario::new("a rule may name the target itself", language::name_in_the_rule).on_shards_too(),
        Scenario::new("a definition stays while objects of its kind exist", language::definition).on_kubernetes(),
        Scenario::new("a selector refers to what it selects", language::selector),
        Scenario::new("a reference to what is not there is refused when it is made", references::refused)
            .on_shards_too(),
        Scenario::new("API servers ask about references only when one may begin to count", references::asked_about)
            .without_control()
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("a new reference and the deletion of its target are never both allowed", races::never_dangling)
            .without_control()
            .interlocked_by(4)
            .lasting(races::limit())
            .on_shards_too(),
        Scenario::new(
            "references are interlocked by registers, and an uninstall leaves none",
            registers::until_uninstalled,
        )
        .without_control()
        .interlocked_by(8)
        .on_shards_too(),
        Scenario::new("nobody but depguard writes its registers", registers::kept_from_others)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .interlocked_by(4),
        Scenario::new("the creation of a name that is taken leaves no mark", races::taken_names)
            .without_control()
            .interlocked_by(4),
        Scenario::new("no request waits for the marks of requests that are over", races::nobody_waits_for_old_marks)
            .without_control()
            .interlocked_by(5)
            .on_shards_too(),
        Scenario::new("a target waits for no dependent that came and went", races::gone_at_once)
            .without_control()
            .interlocked_by(5)
            .on_shards_too(),
        Scenario::new("a forged review leaves no mark, and a renewal of paths holds nobody up", forged::reviews)
            .without_control()
            .on_kubernetes()
            .interlocked_by(4)
            .lasting(6),
        Scenario::new("creations that a quota refuses keep no deletion out", attacks::creations)
            .without_control()
            .on_kubernetes()
            .interlocked_by(4),
        Scenario::new("deletions that somebody else refuses keep no creation out", attacks::deletions)
            .without_control()
            .on_kubernetes()
            .interlocked_by(4),
        Scenario::new("a dependent that loses its owner while the owner is deleted never dangles", owned::lets_go)
            .without_control()
            .on_kubernetes()
            .tears_down()
            .interlocked_by(4)
            .lasting(races::limit()),
        Scenario::new("a dependent that gets a second owner while the first is deleted never dangles", owned::joins)
            .without_control()
            .on_kubernetes()
            .tears_down()
            .interlocked_by(4)
            .lasting(races::limit()),
        Scenario::new("a dependent of two owners that comes while one is deleted never dangles", owned::comes)
            .without_control()
            .on_kubernetes()
            .tears_down()
            .interlocked_by(4)
            .lasting(races::limit()),
        Scenario::new("a second deletion leaves nothing behind that the first one ignored", owned::orphaned_later)
            .on_kubernetes()
            .alone()
            .tears_down(),
        Scenario::new("an owned dependent that no collector reaches counts", owned::out_of_reach)
            .on_kubernetes()
            .alone()
            .tears_down(),
        Scenario::new("a killed webhook lets nothing dangle and nothing wait for good", races::crashes)
            .without_control()
            .on_kubernetes()
            .interlocked_by(6),
        Scenario::new("replicas without registers let nothing dangle", races::without_registers)
            .without_control()
            .on_kubernetes()
            .lasting(races::limit())
            .interlocked_by(4),
        Scenario::new("killed at any write of a register, the webhook lets nothing dangle", killed::webhook)
            .without_control()
            .on_kubernetes()
            .interlocked_by(1),
        Scenario::new("killed at any write of a register, the controller lets nothing dangle", killed::controller)
            .without_control()
            .on_kubernetes()
            .interlocked_by(1),
        Scenario::new("references and deletions race through two API servers", api_servers::race_through_two)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .interlocked_by(4)
            .lasting(races::limit()),
        Scenario::new(
            "an API server that stands still for less than W lets nothing dangle",
            api_servers::one_stands_still,
        )
        .without_control()
        .on_kubernetes()
        .on_real_servers()
        .interlocked_by(1),
        Scenario::new(
            "what an API server lets dangle after it stood still for longer than W is counted",
            api_servers::one_stands_still_for_too_long,
        )
        .without_control()
        .on_kubernetes()
        .on_real_servers()
        .interlocked_by(1),
        Scenario::new("kubectl waits and repeats a request that is told to come again", waiting::kubectl)
            .without_control()
            .on_real_servers()
            .on_shards_too()
            .interlocked_by(3),
        Scenario::new("references and deletions wait for registers that are lost", races::lost_registers)
            .without_control()
            .on_kubernetes()
            .interlocked_by(7),
        Scenario::new("a refused deletion has one Event beside its object", events::told).with_denial_events(),
        Scenario::new("dependents are found in the cheapest way that their schema allows", lookups::cheapest).alone(),
        Scenario::new("Kubernetes selects its own kinds by the fields that are listed", lookups::built_in_fields)
            .without_control()
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("a reference to nothing is warned of, and its target may come second", missing::noted)
            .without_control()
            .alone(),
        Scenario::new("no finalizer and no label waits for a missing target", missing::never_held_up).without_control(),
        Scenario::new("a namespace ends although references are checked", missing::namespace_ends)
            .without_control()
            .tears_down(),
        Scenario::new("a namespace ends in the order of its references", teardown::namespace)
            .tears_down()
            .on_shards_too(),
        Scenario::new("a workspace ends in the order of its references", teardown::workspace)
            .on_kcp()
            .alone()
            .on_shards_too(),
        Scenario::new("unbinding the target's API waits for the dependents", teardown::unbinding)
            .on_kcp()
            .alone()
            .on_shards_too(),
        Scenario::new("two kinds that refer to each other end with their namespace", cycles::two_kinds).tears_down(),
        Scenario::new("a kind that refers to itself ends with its namespace", cycles::one_kind).tears_down(),
        Scenario::new("two namespaces that refer to each other end together, not one alone", cycles::two_namespaces)
            .tears_down(),
        Scenario::new("an export with a cycle inside can be unbound", cycles::unbinding).on_kcp().alone(),
        Scenario::new("a workspace ends although kcp keeps its cluster-scoped objects last", cycles::kept_last)
            .on_kcp()
            .alone(),
        Scenario::new("whatever the options, a referenced object is denied and a free one deleted", options::table)
            .tears_down(),
        Scenario::new("what is on its way out is not held up by who comes later", options::terminating),
        Scenario::new("a tenant lifts nothing by the annotation and a namespace", teardown::tenant).tears_down(),
        Scenario::new("an operator lifts the protection by the annotation", lifecycle::override_by_an_operator),
        Scenario::new("nothing is deleted while the webhook is away, nor right after", lifecycle::webhook_killed)
            .on_shards_too(),
        Scenario::new("a changed rule counts as it is now", lifecycle::rule_changed).on_shards_too(),
        Scenario::new("a rule removed while the controller is down leaves nothing", lifecycle::rule_removed_while_down),
        Scenario::new("a rule may come before its target's provider binds", lifecycle::rule_before_binding)
            .on_kcp()
            .alone(),
        Scenario::new("a stranger's rule about others' kinds changes nothing", lifecycle::unrelated_rule)
            .on_kcp()
            .alone(),
        Scenario::new("a stranger's 600 dependencies cost nobody else a mark", strangers::of_many_dependencies)
            .on_kcp()
            .alone()
            .without_control()
            .interlocked_by(16),
        Scenario::new("a workspace that says to be the provider takes no protection away", liar::of_the_providers_path)
            .on_kcp()
            .alone(),
        Scenario::new("a rule counts only where the targets' provider accepts it", rule_grants::accepted)
            .on_kcp()
            .alone(),
        Scenario::new("a path that nobody has below an accepted pattern bears nothing", rule_grants::below_a_pattern)
            .on_kcp()
            .alone()
            .on_shards_too()
            .lasting(8),
        Scenario::new("a claim that is not accepted shows in the status", installation::claim_not_accepted)
            .on_kcp()
            .alone(),
        Scenario::new("a configuration deleted by hand comes back", installation::deleted_by_hand),
        Scenario::new("a configuration edited by hand is put right", installation::edited_by_hand),
        Scenario::new(
            "what another manager adds to the configuration is taken out",
            installation::added_by_another_manager,
        ),
        Scenario::new("a foreign configuration is reported and left alone", installation::foreign),
        Scenario::new("the reference's configuration is taken over", installation::taken_over),
        Scenario::new(
            "whoever switches from the reference keeps the export, the rules and their protection",
            switching::from_the_reference,
        )
        .on_kcp()
        .alone(),
        Scenario::new("the reference's published examples are protected after the switch", published::examples)
            .on_kcp()
            .alone(),
        Scenario::new("a changed URL and CA are applied", installation::moved).on_shards_too(),
        Scenario::new("a removed target leaves the configuration", installation::target_removed).without_control(),
        Scenario::new("20 restarts lose none of 8 rules' kinds", installation::restarts).without_control().alone(),
        Scenario::new("a rule with one slip is not enforced, or protects what the right one does", checked::one_slip)
            .without_control(),
        Scenario::new("a rule is held against the schemas of its kinds", checked::against_schemas).without_control(),
        Scenario::new("uninstalled with the webhook dead, nothing is refused any more", uninstalling::webhook_dead)
            .alone(),
        Scenario::new("an uninstall ends beside a webhook that answers nothing", hostile::uninstall)
            .without_control()
            .on_kubernetes()
            .alone()
            .interlocked_by(16),
        Scenario::new("kubectl depguard order ends beside a webhook that answers nothing", hostile::order)
            .without_control()
            .on_kubernetes(),
        Scenario::new(
            "depguard's own namespace, Helm's releases and excluded names need no webhook",
            uninstalling::own_namespace,
        )
        .without_control()
        .on_kubernetes()
        .on_real_servers(),
        Scenario::new("a rule says that it is enforced only while it is", enforced::while_it_is)
            .without_control()
            .on_shards_too(),
        Scenario::new("a canary shows that an aggregated API server asks the webhook", enforced::once_a_canary_came)
            .without_control()
            .on_kubernetes(),
        Scenario::new("a restart says nothing anew while no probe is answered", enforced::while_nobody_answers)
            .without_control(),
        Scenario::new("a rule that ignores failures refuses, and lets go while depguard is away", policy::ignore),
        Scenario::new("a rule that only warns refuses nothing, and says so to whoever deletes", policy::warn)
            .without_control(),
        Scenario::new("an elected controller installs, and renews its Lease", election::installs_and_renews)
            .without_control(),
        Scenario::new("a ServiceAccount's token is its account's, and ends with it", tokens::of_accounts)
            .without_control(),
        Scenario::new("what changes is watched, and not listed again and again", reading::watched).without_control(),
        Scenario::new("a Secret that is referred to stays, and is never read", reading::secrets).on_kubernetes(),
        // This scenario begins without the right to read Pods, which some of the next ones leave in their cluster.
        Scenario::new("a Pod that is referred to is not evicted", eviction::refused).on_kubernetes(),
        Scenario::new("a drain waits for what refers to a Pod", eviction::drained).on_kubernetes().on_real_servers(),
        Scenario::new("a ConfigMap that a Pod uses stays", local::config_map_of_pod).on_real_servers().on_kubernetes(),
        Scenario::new("each subresource that makes a reference is reviewed", doors::watched).on_kubernetes().alone(),
        Scenario::new("each subresource that makes a reference is reviewed with registers, too", doors::watched)
            .on_kubernetes()
            .without_control()
            .alone()
            .interlocked_by(16),
        Scenario::new(
            "a webhook that is down stops neither the scheduler nor the end of a namespace",
            doors::never_shut,
        )
        .without_control()
        .on_kubernetes()
        .on_real_servers()
        .alone(),
        Scenario::new("no subresource changes what the table of subresources lacks", doors::all_known)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .alone(),
        Scenario::new("the API server has all that the rules about Kubernetes' own kinds name", local::fits_kubernetes)
            .on_kubernetes()
            .on_real_servers()
            .without_control()
            .alone(),
        Scenario::new("Kubernetes finds the Pods of a Node by a field", lookups::pods_of_a_node)
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("a pack's rules get new names, and nothing can be deleted meanwhile", renamed::by_command)
            .on_kubernetes()
            .on_real_servers()
            .alone(),
        Scenario::new(
            "a Helm release's rules get new names, and nothing can be deleted meanwhile",
            renamed::by_release,
        )
        .on_kubernetes()
        .on_real_servers()
        .alone(),
        Scenario::new("helm upgrades roll out beside all packs, and nothing is refused", rollouts::by_helm)
            .on_kubernetes()
            .on_real_servers()
            .without_control()
            .tears_down()
            .lasting(4)
            .alone(),
        Scenario::new("an Argo-like sync rolls out beside all packs, and nothing is refused", rollouts::by_argo)
            .on_kubernetes()
            .on_real_servers()
            .without_control()
            .tears_down()
            .alone(),
        Scenario::new("Kubernetes' own tests pass beside all packs", conformance::beside_packs)
            .on_conformance()
            .interlocked_by(16)
            .lasting(8),
        Scenario::new("optional references go while their Pod runs", conformance::optional)
            .on_kubernetes()
            .on_real_servers()
            .without_control()
            .alone(),
        Scenario::new("an APIResourceSchema that an APIExport uses stays", local::schema_of_export).on_kcp().alone(),
        Scenario::new(
            "rules about a kind that kcp has renamed are enforced by either name",
            local::kinds_of_either_name,
        )
        .on_kcp()
        .alone(),
        Scenario::new("a Flux-like prune ends, dependents first", gitops::flux).alone(),
        Scenario::new("an Argo-like prune ends, dependents first", gitops::argo).alone(),
        Scenario::new("an uninstall in Helm's order ends, dependents first", gitops::helm).alone(),
        Scenario::new("a deletion file by file ends, dependents first", gitops::kubectl).alone(),
        Scenario::new("a destruction side by side ends, dependents first", gitops::terraform).alone(),
        Scenario::new("a deletion in the rules' order needs one pass", gitops::order).alone(),
        Scenario::new("kubectl and helm delete again until all is gone", gitops::programs)
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("a network in use is not given to the agents to tear down", finalizers::network_in_use).alone(),
        Scenario::new("two agents with one finalizer fight, with depguard too", finalizers::fight)
            .without_control()
            .alone(),
        Scenario::new("a list of rules shows dependents, targets and readiness", schema::columns)
            .without_control()
            .on_real_servers(),
        Scenario::new("the API server refuses a rule that can't be right", schema::checks)
            .without_control()
            .on_real_servers(),
        Scenario::new("the stock binaries deny and allow", binaries::deny_and_allow).on_shards_too(),
        Scenario::new("two versions decide alike, in each order of an upgrade and of a rollback", upgrade::of_checks)
            .without_control()
            .on_kubernetes()
            .lasting(10),
        Scenario::new("an upgrade begins to interlock, and its rollback ends it", upgrade::to_the_interlock)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .interlocked_by(upgrade::REGISTERS)
            .lasting(10),
        Scenario::new("an upgrade gives registers a key, and its rollback takes it away", upgrade::to_the_key)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .interlocked_by(upgrade::REGISTERS)
            .lasting(10),
        Scenario::new("a rule with a field of a newer version refuses until the field is gone", newer::field)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .alone(),
        Scenario::new("rules count in whatever version they are stored", stored::rules)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .alone(),
        Scenario::new("registers are made again in another stored version", stored::registers)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .interlocked_by(3),
        Scenario::new("locks hold in whatever version they are stored", stored::locks)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .with_locks(),
        Scenario::new("an owner goes in order in whatever version it is stored", stored::owners)
            .without_control()
            .on_real_servers()
            .with_owners(),
        Scenario::new("consumers on each shard are protected, and let go", shards::consumers_on_each).on_shards(),
        Scenario::new("a consumer on a shard whose host nobody named harms no other", shards::host_not_named)
            .on_shards(),
        Scenario::new("a targets' provider that unbinds lets its consumers on each shard go", shards::provider_unbinds)
            .on_shards(),
        Scenario::new("a shard with providers hangs: only who bound an API from there waits", shards::providers_hang)
            .stops_a_shard(),
        Scenario::new(
            "a shard with providers is killed: only who bound an API from there waits",
            shards::providers_killed,
        )
        .stops_a_shard(),
        Scenario::new("a shard with consumers only is killed: all others are decided", shards::consumers_killed)
            .stops_a_shard(),
        Scenario::new("started while a shard with rules hangs, depguard waits for it", shards::started_meanwhile)
            .stops_a_shard(),
        Scenario::new("kubectl depguard why names who blocks, to whoever may delete", kubectl::why),
        Scenario::new("kubectl depguard why tells what hangs from what is refused", kubectl::why_hanging)
            .without_control()
            .tears_down()
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("kubectl depguard impact shows what depends on an object", kubectl::impact).without_control(),
        Scenario::new("kubectl depguard dangling finds references to nothing", kubectl::dangling).without_control(),
        Scenario::new(
            "the controller counts the references that kubectl depguard dangling lists",
            kubectl::dangling_counted,
        )
        .without_control()
        .on_kubernetes(),
        Scenario::new("files say what an API server would store", files::as_stored)
            .without_control()
            .on_kubernetes()
            .on_real_servers()
            .lasting(12),
        Scenario::new("every cluster has what kubectl depguard takes for there", files::every_cluster)
            .without_control()
            .on_kubernetes()
            .on_real_servers(),
        Scenario::new("kubectl depguard order deletes what refers first", kubectl::order).without_control(),
        Scenario::new("kubectl depguard lint says where a rule's path goes wrong", kubectl::lint)
            .without_control()
            .alone(),
        Scenario::new("kubectl depguard status shows whether rules are enforced", kubectl::status).without_control(),
        Scenario::new("kubectl depguard graph draws the rules that bear", kubectl::graph).without_control(),
        Scenario::new("rules imported from a PublishedResource hold a Certificate's Secret", kubectl::import)
            .on_kubernetes(),
        Scenario::new("kubectl depguard suggest finds the rule in the schemas", kubectl::suggest)
            .without_control()
            .alone(),
        Scenario::new(
            "a locked object is neither changed nor deleted, and says why and until when",
            locks::what::whole,
        )
        .with_locks(),
        Scenario::new("a lock lets pass what changes nothing of the object's own", locks::what::exempt).with_locks(),
        Scenario::new("a lock leaves status and scale alone unless it names them", locks::what::subresources)
            .with_locks(),
        Scenario::new("a lock of a subresource refuses whatever is done through it", locks::what::through)
            .without_control()
            .on_kubernetes()
            .with_locks(),
        Scenario::new("a lock of fields freezes these and no others", locks::what::fields).with_locks(),
        Scenario::new("a lock refuses the operations that it names and no others", locks::what::operations)
            .with_locks(),
        Scenario::new("a selector locks what it selects", locks::what::selector).with_locks(),
        Scenario::new("a lock of the cluster locks wherever it says", locks::what::cluster).with_locks(),
        Scenario::new("a lock's holder acts, and nobody else lifts it", locks::holders::holder).with_locks(),
        Scenario::new("who has the verb unlock takes a lock away, and that is on record", locks::holders::unlock)
            .with_locks(),
        Scenario::new("who may not read a lock is not told why", locks::holders::unread).with_locks(),
        Scenario::new("an expired lock holds nothing", locks::holders::expired).with_locks(),
        Scenario::new("a lock made right before a deletion is seen", locks::seen::at_once).with_locks(),
        Scenario::new("an object is locked until its last lock is gone", locks::seen::many_of_one).with_locks(),
        Scenario::new("a collection delete stops at a locked object", locks::seen::collection).with_locks(),
        Scenario::new("nothing locked changes while the webhook is away, nor right after", locks::seen::webhook_away)
            .with_locks(),
        Scenario::new("only what locks name is reviewed, and nothing once there are none", locks::configured::narrow)
            .without_control()
            .with_locks(),
        Scenario::new("what a lock holds is reviewed while other locks go", locks::configured::narrow_meanwhile)
            .without_control()
            .with_locks(),
        Scenario::new("a locked Event needs no webhook for Events elsewhere", locks::configured::events)
            .without_control()
            .on_kubernetes()
            .with_locks(),
        Scenario::new(
            "a lock holds again after its table was deleted, and though nobody saw it made",
            locks::configured::repaired,
        )
        .with_locks(),
        Scenario::new("a namespace ends although objects in it are locked", locks::teardown::released)
            .tears_down()
            .with_locks(),
        Scenario::new("a namespace waits for a lock that holds during teardown", locks::teardown::held)
            .tears_down()
            .with_locks(),
        Scenario::new("the older tool's locks guard what has their name", locks::configured::compat)
            .with_locks()
            .on_kubernetes(),
        Scenario::new("a rule that does not work as written is refused before it is stored", beside::rules_reviewed)
            .without_control()
            .alone(),
        Scenario::new("a lock that does not work as written is refused before it is stored", beside::locks_reviewed)
            .without_control()
            .with_locks(),
        Scenario::new("an owner that does not work as written is refused before it is stored", beside::owners_reviewed)
            .without_control()
            .with_owners(),
        Scenario::new("a configuration about locks that somebody edits is put right", beside::locks_edited)
            .without_control()
            .with_locks(),
        Scenario::new("what changes of locks is watched, and not listed again and again", reading::watched_for_locks)
            .without_control()
            .with_locks(),
        Scenario::new("uninstalled with the webhook dead, nothing is left of locks", beside::locks_uninstalled)
            .without_control()
            .with_locks(),
        Scenario::new("the API server refuses a lock of another namespace's object", schema::of_locks)
            .without_control()
            .on_real_servers()
            .with_locks(),
        Scenario::new("the API server refuses a group that is chosen in two ways", schema::of_owners)
            .without_control()
            .on_real_servers()
            .with_owners(),
        Scenario::new("the older tool's example is adopted, and goes with its owner", owners::adopting::example)
            .without_control()
            .with_owners(),
        Scenario::new("an owner follows the labels, and leaves other owners alone", owners::adopting::labels)
            .without_control()
            .with_owners(),
        Scenario::new("an owner takes nothing from a controller, nor what opts out", owners::adopting::not_stolen)
            .without_control()
            .with_owners(),
        Scenario::new("a group selects by its own labels, or by names in a namespace", owners::adopting::selected)
            .without_control()
            .with_owners(),
        Scenario::new("an owner's groups go in order, each once the former is gone", owners::removing::in_order)
            .without_control()
            .with_owners(),
        Scenario::new("an owner's groups go in the order of the rules", owners::removing::by_rules)
            .without_control()
            .with_owners(),
        Scenario::new("what keeps an owner's objects shows, and once it is gone all goes on", owners::removing::stuck)
            .without_control()
            .with_owners(),
        Scenario::new("a removal goes on after the controller was away", owners::removing::restarted)
            .without_control()
            .with_owners(),
        Scenario::new(
            "an owner deleted while the controller is away is removed later",
            owners::removing::deleted_while_away,
        )
        .without_control()
        .with_owners(),
        Scenario::new("a removal ends whatever references others write", owners::removing::foreign_reference)
            .without_control()
            .with_owners(),
        Scenario::new(
            "what was made a moment before its owner's deletion goes in order, and what comes later is named",
            owners::removing::not_adopted_yet,
        )
        .without_control()
        .with_owners(),
        Scenario::new("an owner deleted with orphan leaves its objects, and nothing else", owners::releasing::orphaned)
            .without_control()
            .with_owners(),
        Scenario::new(
            "an owner whose policy says so leaves its objects, and nothing else",
            owners::releasing::by_policy,
        )
        .without_control()
        .with_owners(),
        Scenario::new("an owner is not deleted in the foreground", owners::refusing::foreground).with_owners(),
        Scenario::new("a group's owner is not deleted by hand", owners::refusing::group_owner).with_owners(),
        Scenario::new(
            "what was made for an owner goes, and nothing else, though its finalizer was taken away",
            owners::removing::finalizer_taken,
        )
        .without_control()
        .with_owners(),
        Scenario::new("what was made for owners and somebody edits is put right", beside::owners_edited)
            .without_control()
            .with_owners(),
        Scenario::new("what changes of owners is watched, and not listed again and again", reading::watched_for_owners)
            .without_control()
            .with_owners(),
        Scenario::new("uninstalled with the webhook dead, nothing is left of owners", beside::owners_uninstalled)
            .without_control()
            .with_owners(),
        Scenario::new("many objects of three groups go in order, as seen from outside", owners::many::three_groups)
            .without_control()
            .with_owners(),
    ];
    if !runner::main(&scenarios) {
        std::process::exit(1);
    }
}
