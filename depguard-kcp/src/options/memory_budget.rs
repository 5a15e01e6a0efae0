//! Memory budget of a process, from its flag or its cgroup.

use std::fs;
use std::path::Path;

/// Memory that a process may take. Whatever grows by what others send or store takes a fixed part of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    bytes: usize,
}

impl MemoryBudget {
    /// Budget of a process that nothing limits: the limit of the chart.
    pub const DEFAULT: Self = Self { bytes: 256 << 20 };

    /// Returns the budget of this process: the bytes that are given, else the smallest limit of its cgroups, else the
    /// default.
    pub fn of_process(given: Option<usize>) -> Self {
        let read = |path: &Path| fs::read_to_string(path).ok();
        given.or_else(|| of_cgroups(read)).map_or(Self::DEFAULT, |bytes| Self { bytes })
    }

    /// Returns so many 256ths of the budget, in bytes: of the default, as many MiB.
    pub fn part(self, of_256: usize) -> usize {
        (self.bytes / 256).saturating_mul(of_256)
    }
}

/// Returns the smallest memory limit of the cgroup in which this process is, and of the cgroups around it.
fn of_cgroups(read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let (cgroups, mounts) = (read(Path::new("/proc/self/cgroup"))?, read(Path::new("/proc/self/mountinfo"))?);
    let of_mount = |mount: &str| {
        let (place, kind) = mount.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, Path::new(place.next()?));
        let mut kind = kind.split(' ');
        let (file, controller) = match (kind.next()?, kind.next_back()?) {
            ("cgroup2", _) => ("memory.max", ""),
            ("cgroup", options) if options.split(',').any(|option| option == "memory") => {
                ("memory.limit_in_bytes", "memory")
            }
            _ => return None,
        };
        let own = cgroups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|one| one == controller).then_some(path)
        });
        let below = own?.strip_prefix(root).unwrap_or_default().trim_start_matches('/');
        // A group without a limit says `max`, or a number of nearly 2^63.
        let limit = |folder: &Path| read(&folder.join(file))?.trim().parse().ok().filter(|limit| *limit < 1 << 60);
        point.join(below).ancestors().take_while(|folder| folder.starts_with(point)).filter_map(limit).min()
    };
    mounts.lines().filter_map(of_mount).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(cgroups: &str, mounts: &str, limits: &[(&str, &str)]) -> Option<usize> {
        of_cgroups(|path| match path.to_str().unwrap() {
            "/proc/self/cgroup" => Some(cgroups.to_owned()),
            "/proc/self/mountinfo" => Some(mounts.to_owned()),
            path => limits.iter().find(|(file, _)| *file == path).map(|(_, limit)| format!("{limit}\n")),
        })
    }

    #[test]
    fn the_smallest_limit_from_the_own_cgroup_upwards_counts() {
        let two = "35 24 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        let limits = [("/sys/fs/cgroup/a/b/memory.max", "max"), ("/sys/fs/cgroup/a/memory.max", "268435456")];
        assert_eq!(limit("0::/a/b\n", two, &limits), Some(256 << 20));
        assert_eq!(limit("0::/a/b/c\n", two, &[("/sys/fs/cgroup/a/b/c/memory.max", "1000"), limits[1]]), Some(1000));
        assert_eq!(limit("0::/other\n", two, &limits), None);
        let one = "40 24 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                   41 24 0:32 /kubepods/p /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let cgroups = "3:cpu,cpuacct:/kubepods/p\n2:memory:/kubepods/p/c\n0::/\n";
        let unlimited = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        let limited = ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "4096");
        assert_eq!(limit(cgroups, one, &[unlimited, limited]), Some(4096));
        assert_eq!(limit(cgroups, one, &[unlimited]), None);
        assert_eq!(limit("", "", &[]), None);
    }

    #[test]
    fn a_given_budget_counts_before_any_limit() {
        assert_eq!(MemoryBudget::of_process(Some(512)).part(2), 4);
        assert_eq!(MemoryBudget::DEFAULT.part(3), 3 << 20);
    }
}
