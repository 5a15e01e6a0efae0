//! Repository itself: the order of its modules, its public items, its packages, the manifest for krew, the refusals
//! that its code can give, its workflows, and what a page says about the chart.

mod architecture;
mod krew;
mod packages;
mod public_api;
mod refusals;
mod switching;
mod workflows;
