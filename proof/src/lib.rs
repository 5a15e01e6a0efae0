//! Model check of the reference interlock.
//!
//! The transition function of the model is the code of [`depguard_core::interlock`] itself. Around that code the model
//! plays API servers, replicas of the webhook, the controller and people, in every order of their steps. `docs/proof.md`
//! says what is modelled and under which assumptions.

mod careless;
mod check;
mod cleaning;
mod describe;
mod events;
mod guard;
mod model;
mod properties;
mod review;
mod server;
mod settle;
mod state;
mod world;
mod worlds;
mod writes;

pub use check::{Report, counterexample_path, visit};
pub use events::Event;
pub use guard::Guard;
pub use model::{Action, Interlock};
pub use properties::{ALLOWED, DECIDED, NEVER_DANGLING, NEVER_STUCK, NO_MARK_LEFT, REFUSED, SOMEBODY_PASSES};
pub use state::State;
pub use world::{Events, Hot, Operation, Request, Targets, World, apply, create, delete, update};
pub use worlds::{counterexample, large, small};
pub use writes::StepMode;
