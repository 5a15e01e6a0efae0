//! Repository itself: the order of its modules, its public items, its packages, and the refusals that its code can give.

mod architecture;
mod packages;
mod public_api;
mod refusals;
