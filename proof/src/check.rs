//! Searches: of all states of a world, and for a counterexample of few steps.

use std::collections::BTreeSet;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::Interlock;
use crate::world::World;

/// Result of a search of all states.
#[derive(Debug)]
pub struct Report {
    /// The number of states.
    pub states: usize,
    /// The number of steps from one state to another.
    pub steps: usize,
    /// The properties that don't hold, each with a path to a state that shows that.
    pub violations: Vec<(&'static str, Vec<String>)>,
    /// The properties that should hold somewhere, and hold nowhere.
    pub unreached: Vec<&'static str>,
}

/// Visits all states of a world.
pub fn visit(world: World, threads: usize) -> Report {
    let checker = Interlock::new(world).checker().threads(threads).spawn_dfs().join();
    let model = checker.model();
    let mut found = checker.discoveries();
    let (mut violations, mut unreached) = (Vec::new(), Vec::new());
    for property in model.properties() {
        match (property.expectation, found.remove(property.name)) {
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                violations.push((property.name, model.tell(path.into_vec())));
            }
            (Expectation::Sometimes, None) => unreached.push(property.name),
            (Expectation::Always | Expectation::Eventually, None) | (Expectation::Sometimes, Some(_)) => {}
        }
    }
    Report { states: checker.unique_state_count(), steps: checker.state_count(), violations, unreached }
}

/// Searches by the number of steps for a state in which the property doesn't hold. Returns the path to it, and the
/// number of states visited.
pub fn counterexample_path(world: World, property: &'static str) -> (Option<Vec<String>>, usize) {
    let enough = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = Interlock::new(world).checker().threads(1).finish_when(enough).spawn_bfs().join();
    let (model, holds) = (checker.model(), checker.model().property(property).condition);
    let path = checker.discovery(property).map(|path| {
        // The search may go on for some steps after the property is broken.
        model.tell(path.into_vec().into_iter().take_while(|(state, _)| holds(model, state)))
    });
    (path, checker.unique_state_count())
}
