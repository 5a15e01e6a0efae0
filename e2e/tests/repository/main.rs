//! Repository itself: the order of its modules, its budget of lines, its public items, its packages, what registries show
//! of the chart, the container image, the manifest for krew, the refusals that its code can give, its workflows, and what
//! pages say about the chart, tested versions and good practices.

mod architecture;
mod budget;
mod chart;
mod chart_values;
mod compatibility;
mod image;
mod krew;
mod openssf;
mod owner;
mod packages;
mod public_api;
mod refusals;
mod switching;
mod workflows;
