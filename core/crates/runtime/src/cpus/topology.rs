//! Topology of the processors that this process may use.

use std::{collections::BTreeSet, fs, path::Path};

use rustix::thread::sched_getaffinity;

/// One processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cpu {
    pub(super) id: usize,
    pub(super) node: usize,
    /// Lowest processor of the same physical core; its own number without hyper-threading.
    pub(super) core: usize,
}

/// Resources of this machine that the process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// The processors, ascending.
    pub(super) cpus: Vec<Cpu>,
    /// CPU time in processors: less than the number of processors in a container with a quota.
    pub(super) worth: usize,
}

impl Machine {
    pub(super) fn detect() -> Self {
        let allowed = sched_getaffinity(None).ok();
        let online = read_list(Path::new("/sys/devices/system/cpu/online"));
        let usable: Vec<usize> = match (allowed, online) {
            (Some(allowed), Some(online)) => online
                .into_iter()
                .filter(|cpu| allowed.is_set(*cpu))
                .collect(),
            _ => Vec::new(),
        };
        let worth = std::thread::available_parallelism().map_or(1, usize::from);
        let usable = if usable.is_empty() {
            (0..worth).collect()
        } else {
            usable
        };
        let nodes = numa_nodes();
        let cpus = usable
            .into_iter()
            .map(|id| Cpu {
                id,
                node: nodes
                    .iter()
                    .find(|(_, cpus)| cpus.contains(&id))
                    .map_or(0, |(node, _)| *node),
                core: read_list(Path::new(&format!(
                    "/sys/devices/system/cpu/cpu{id}/topology/thread_siblings_list"
                )))
                .and_then(|siblings| siblings.first().copied())
                .unwrap_or(id),
            })
            .collect();
        Self { cpus, worth }
    }

    pub(super) fn nodes(&self) -> BTreeSet<usize> {
        self.cpus.iter().map(|cpu| cpu.node).collect()
    }
}

fn numa_nodes() -> Vec<(usize, Vec<usize>)> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else {
        return Vec::new();
    };
    let mut nodes: Vec<(usize, Vec<usize>)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let node = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((node, read_list(&entry.path().join("cpulist"))?))
        })
        .collect();
    nodes.sort();
    nodes
}

fn read_list(path: &Path) -> Option<Vec<usize>> {
    parse_list(fs::read_to_string(path).ok()?.trim())
}

/// Parse a set of processors as the kernel writes it, for example `0-3,8,10-11`.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            Some((first, last)) => {
                numbers.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
            }
            None => numbers.push(part.parse().ok()?),
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_understood() {
        assert_eq!(parse_list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list(""), Some(Vec::new()));
        assert_eq!(parse_list("a"), None);
    }

    #[test]
    fn this_machine_has_a_processor() {
        let machine = Machine::detect();
        assert!((1..=machine.cpus.len()).contains(&machine.worth));
        assert!(!machine.nodes().is_empty());
    }
}
