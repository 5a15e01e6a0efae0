//! Reference registers: this module makes, opens and cleans them. Marks are written by the webhook.
//!
//! Only the controller that may write does this work. A controller that gets the permit sees every mark for the first
//! time, so a change of the leader only makes marks stay longer.

mod deletion;
mod inspection;
mod readiness;
mod upkeep;

pub(crate) use self::deletion::StoredRegister;
pub(crate) use self::readiness::{InterlockState, RegisterReadiness};
pub(crate) use self::upkeep::RegisterUpkeep;
