//! Random plots of removals.

use std::collections::BTreeSet;

use proptest::prelude::*;

pub(super) const KINDS: usize = 4;
pub(super) const TIERS: u8 = 3;
pub(super) const ALL_TIERS: u8 = (1 << TIERS) - 1;

/// Plot of one world.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    /// Entries that are listed now.
    pub(super) listed: Vec<Picks>,
    /// Entries that were listed when the GroupOwners were made; `None` if they were the same.
    pub(super) before: Option<Vec<Picks>>,
    pub(super) by_rules: bool,
    /// Dependent and target kinds of the rules.
    pub(super) rules: Vec<(usize, usize)>,
    pub(super) objects: Vec<Seed>,
    /// Groups that have no role yet.
    pub(super) roleless: BTreeSet<usize>,
    pub(super) orphan: Orphan,
    /// Objects that are made meanwhile, one after the other.
    pub(super) late: Vec<Seed>,
    /// True if the last of these is made again and again.
    pub(super) endless: bool,
    /// Draws: the number of writes before the next crash, and the objects that a watch has not seen yet.
    pub(super) chances: Vec<u8>,
}

/// Kind that an entry selects, and its tiers: one bit each.
pub(super) type Picks = (usize, u8);

#[derive(Debug, Clone)]
pub(super) struct Seed {
    pub(super) kind: usize,
    pub(super) tier: u8,
    /// Groups that own the object, as far as they are of its kind.
    pub(super) owners: BTreeSet<usize>,
    pub(super) opted_out: bool,
    pub(super) is_anothers: bool,
    /// References that the object's maker wrote on it.
    pub(super) foreign: Vec<Foreign>,
    /// Number of times that its deletion is refused.
    pub(super) refusals: u8,
    /// Number of looks for which its finalizers hold it.
    pub(super) held: u8,
}

/// Owner reference that no controller of ours has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// Name of a group, in this version, with a UID that nobody has.
    Dangling(usize, &'static str),
    /// Kind and name of a group, in another API group.
    OtherApiGroup(usize),
    /// Group of another GlobalOwner.
    OtherGroup,
    /// The GlobalOwner itself.
    GlobalOwner,
    /// Empty reference.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Orphan {
    No,
    Policy,
    /// The garbage collector's finalizer is there.
    Finalizer,
    /// The garbage collector is done: the GroupOwners' references are gone, and its finalizer, too.
    Collected,
}

pub(super) fn plot() -> impl Strategy<Value = Plot> {
    let seed = (
        0..KINDS,
        0..TIERS,
        prop::collection::btree_set(0..5_usize, 0..3),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(foreign(), 1..3)],
        prop_oneof![3 => Just(0_u8), 1 => 1..4_u8],
        prop_oneof![2 => Just(0_u8), 1 => 1..4_u8],
    );
    let seed = seed.prop_map(|(kind, tier, owners, opted_out, is_anothers, foreign, refusals, held)| Seed {
        kind,
        tier,
        owners,
        opted_out,
        is_anothers,
        foreign,
        refusals,
        held,
    });
    let orphan = prop_oneof![
        6 => Just(Orphan::No), 1 => Just(Orphan::Policy), 1 => Just(Orphan::Finalizer), 1 => Just(Orphan::Collected)
    ];
    let picks = prop::collection::vec((0..KINDS, prop_oneof![1 => Just(ALL_TIERS), 2 => 1..ALL_TIERS]), 0..5);
    let before = prop_oneof![
        2 => Just(None),
        1 => picks.clone().prop_map(Some),
    ];
    (
        (picks, before),
        any::<bool>(),
        prop::collection::vec((0..KINDS, 0..KINDS), 0..5),
        (prop::collection::vec(seed.clone(), 0..14), prop::collection::vec(seed, 0..6)),
        prop_oneof![2 => Just(BTreeSet::new()), 1 => prop::collection::btree_set(0..5_usize, 0..5)],
        orphan,
        prop::collection::vec(any::<u8>(), 1..60),
    )
        .prop_map(|((listed, before), by_rules, rules, (objects, late), roleless, orphan, chances)| Plot {
            listed,
            before,
            by_rules,
            rules,
            objects,
            roleless,
            orphan,
            late,
            endless: false,
            chances,
        })
}

fn foreign() -> impl Strategy<Value = Foreign> {
    prop_oneof![
        (0..5_usize, prop::sample::select(vec!["v9", "v1alpha1"]))
            .prop_map(|(group, version)| Foreign::Dangling(group, version)),
        (0..5_usize).prop_map(Foreign::OtherApiGroup),
        Just(Foreign::OtherGroup),
        Just(Foreign::GlobalOwner),
        Just(Foreign::Nothing),
    ]
}
