//! depguard itself, in this process.

use std::sync::Arc;

use crate::outcome::{Outcome, Stop};
use crate::world::World;

/// depguard's controller and webhook for one world. In a control it is an empty shell.
pub struct Depguard;

impl Depguard {
    /// Starts both.
    pub async fn start(world: &Arc<World>) -> Outcome<Depguard> {
        if world.is_control() {
            Ok(Depguard)
        } else {
            Err(Stop::Skipped("the webhook and the controller cannot be started yet".to_owned()))
        }
    }
}
