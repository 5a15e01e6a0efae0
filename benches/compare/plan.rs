//! Cases to measure.

use std::path::PathBuf;

use crate::scene::Amounts;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Numbers of dependents to measure with (comma-separated).
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    sizes: Vec<usize>,
    /// Sizes of a dependent in bytes (comma-separated).
    #[arg(long, value_delimiter = ',', default_values_t = [2_000, 20_000])]
    bytes: Vec<usize>,
    /// Measure with a million dependents too, on the testbed; takes some 6 GiB.
    #[arg(long)]
    million: bool,
    /// Maximum number of dependents to create in a kcp.
    #[arg(long, default_value_t = 10_000)]
    kcp_most: usize,
    /// Measurements of each figure; fewer if a measurement takes long.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// API server to measure, instead of both.
    #[arg(long)]
    only: Option<Only>,
    /// Document whose tables are replaced; the plot is written beside it.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md"))]
    pub(crate) document: PathBuf,
    /// Print the tables, and leave the document unchanged.
    #[arg(long)]
    pub(crate) no_document: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    Testbed,
    Kcp,
}

/// One consumer's worth of measurements.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) amounts: Amounts,
    pub(crate) rounds: usize,
    pub(crate) floods: Vec<usize>,
    /// Collection deletes of one set of free targets each.
    pub(crate) sets: usize,
}

/// Memory for decoding, as a multiple of the bytes: the stand-in holds all of it.
const DECODED: usize = 6;
/// The most that all stand-ins at once may need.
const ROOM: usize = 4 << 30;
/// As many of them at once as the reference was seen to fail with.
const STAND_INS: usize = 24;

impl Options {
    pub(crate) fn wants(&self, server: Only) -> bool {
        self.only.is_none_or(|only| only == server)
    }

    pub(crate) fn cases(&self, server: Only) -> Vec<Case> {
        let mut cases = Vec::new();
        for &bytes in &self.bytes {
            for &dependents in &self.sizes {
                let most = match server {
                    Only::Kcp => self.kcp_most,
                    // The objects exist twice, as machines and as servers: 4 GB in all.
                    Only::Testbed => 2_000_000_000 / bytes,
                };
                if dependents <= most && !(server == Only::Kcp && bytes > 2_000) {
                    cases.push(self.case(server, dependents, bytes));
                }
            }
        }
        if self.million && server == Only::Testbed {
            cases.push(self.case(server, 1_000_000, 2_000));
        }
        cases
    }

    fn case(&self, server: Only, dependents: usize, bytes: usize) -> Case {
        let (small, total) = (bytes <= 2_000, dependents * bytes);
        let floods: &[usize] = match (server, small) {
            (_, false) => &[],
            (Only::Kcp, _) => &[1, 24, 200],
            (Only::Testbed, _) if dependents < 10_000 => &[1, 24, 200],
            (Only::Testbed, _) if dependents <= 100_000 => &[1, 24, 200, 1_000],
            (Only::Testbed, _) => &[1, 24],
        };
        // A kcp ends a request after a minute, so there the 200 targets are deleted in ten requests.
        let set = if server == Only::Kcp { 20 } else { 200 };
        let rounds = match total {
            10_000_000..100_000_000 if server == Only::Kcp => self.rounds.min(10),
            0..100_000_000 => self.rounds,
            100_000_000..1_000_000_000 => self.rounds.min(10),
            _ => self.rounds.min(3),
        };
        Case {
            amounts: Amounts {
                dependents,
                bytes,
                free: floods.iter().copied().max().unwrap_or(1).max(200),
                set,
                stand_in: total * DECODED <= ROOM,
                prints: total < 1_000_000_000,
            },
            rounds,
            floods: floods.to_vec(),
            sets: if small && dependents == 10_000 { 200 / set } else { 0 },
        }
    }
}

impl Case {
    /// Returns the webhook's time limit: the default of 10 s, or the maximum if a list alone takes seconds.
    pub(crate) fn seconds(&self) -> u32 {
        if self.amounts.dependents * self.amounts.bytes > 200_000_000 { 30 } else { 10 }
    }

    /// Returns true if the machine has room for as many stand-ins at once.
    pub(crate) fn has_room_for_stand_ins(&self, at_once: usize) -> bool {
        at_once <= STAND_INS && at_once * self.amounts.dependents * self.amounts.bytes * DECODED <= ROOM
    }
}
