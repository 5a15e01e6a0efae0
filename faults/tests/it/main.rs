//! Short runs of depguard under faults. They share one program, since most of each is waiting.

mod crash;
mod run;
