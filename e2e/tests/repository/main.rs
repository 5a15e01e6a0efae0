//! Repository itself: the order of its modules, its public items, its packages, the refusals that its code can give,
//! its workflows, and what a page says about the chart.

mod architecture;
mod packages;
mod public_api;
mod refusals;
mod switching;
mod workflows;
