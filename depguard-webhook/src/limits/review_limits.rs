//! Limits of one service.

use depguard_kcp::MemoryBudget;

/// Limits of one service. `Default` has the usual ones.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum length of a review, in bytes. An API server's object has at most 1.5 MiB, and a review holds it once or
    /// twice.
    pub review: usize,
    /// Maximum number of bytes that all reviews under way take up together; further ones wait while their time lasts, and
    /// of those that stall on their way, the one that has stalled for longest gives way.
    pub reviews: usize,
    /// Maximum number of bytes that all reviews become together while they are decided; further ones wait while their
    /// time lasts.
    pub decisions: usize,
    /// Maximum number of bytes of all long answers together; further ones wait while their time lasts.
    pub answers: usize,
    /// Maximum number of reviews that wait for an API server at once; further ones are refused immediately. Reviews
    /// that need no API server are always decided.
    pub at_once: usize,
    /// Maximum number of bytes that all pages of objects under way take up together; further ones wait while their time
    /// lasts.
    pub pages: usize,
}

impl Limits {
    depguard_kcp::builder_methods! {
        review: usize,
        reviews: usize,
        decisions: usize,
        answers: usize,
        at_once: usize,
        pages: usize,
    }

    /// Returns the usual limits of a service in a process with this budget of memory. A third of the budget is left for
    /// rules, connections, small reads and the program itself.
    pub fn within(memory: MemoryBudget) -> Self {
        Self {
            review: (3 << 20) + (64 << 10),
            reviews: memory.part(40),
            decisions: memory.part(48),
            answers: memory.part(12),
            at_once: 4096,
            pages: memory.part(32),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::within(MemoryBudget::DEFAULT)
    }
}
