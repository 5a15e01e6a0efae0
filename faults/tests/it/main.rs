//! Short runs of depguard under faults. They share one program, because most of each run is waiting.

mod crash;
mod run;
