//! Model check of the reference interlock.
//!
//! The transition function of the model is the code of [`depguard_core::interlock`] itself. Around that code the model
//! plays API servers, replicas of the webhook, the controller and people, in every order of their steps. `docs/proof.md`
//! says what is modelled and under which assumptions.

mod careless;
mod check;
mod cleaning;
mod collector;
mod describe;
mod events;
mod generations;
mod guard;
mod model;
mod owner_worlds;
mod owners;
mod properties;
mod review;
mod server;
mod settle;
mod state;
mod turns;
mod world;
mod worlds;
mod writes;

pub use check::{Report, counterexample_path, visit};
pub use events::Event;
pub use generations::Generations;
pub use guard::Guard;
pub use model::{Action, Interlock};
pub use owners::{Owners, Propagation};
pub use properties::{ALLOWED, DECIDED, NEVER_DANGLING, NEVER_STUCK, NO_MARK_LEFT, REFUSED, SOMEBODY_PASSES};
pub use state::State;
pub use turns::{Client, TurnAction, TurnGuard, TurnState, Turns, play, starved, starving_path, turns};
pub use world::{Events, Hot, Operation, Request, Targets, World, apply, create, delete, release, update};
pub use worlds::{counterexample, large, small};
pub use writes::StepMode;
