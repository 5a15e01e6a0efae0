//! Repository itself: the order of its modules, its public items, its packages, what registries show of the
//! chart, the manifest for krew, the refusals that its code can give, its workflows, and what a page says about the chart.

mod architecture;
mod chart;
mod chart_values;
mod krew;
mod openssf;
mod owner;
mod packages;
mod public_api;
mod refusals;
mod switching;
mod workflows;
