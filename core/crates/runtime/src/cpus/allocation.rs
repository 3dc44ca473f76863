//! The setting `cpu_allocation`: `all`, `4`, `5..8`, `numa:auto`, `numa:nodes=0,1;cores=4;no_ht=true`.

use std::{collections::BTreeSet, str::FromStr};

use super::topology::Machine;

/// Number of shards, and their processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuAllocation {
    /// One shard per processor that the process may use; fewer if a CPU quota is worth fewer processors.
    All,
    /// This number of shards, on the first processors.
    Count(usize),
    /// Processors from the first number up to, but not including, the second.
    Range(usize, usize),
    /// Shards placed by NUMA node.
    Numa {
        /// NUMA nodes; empty: all.
        nodes: Vec<usize>,
        /// Shards per node; `None`: one per processor of the node.
        cores: Option<usize>,
        /// One shard per physical core.
        no_hyper_threads: bool,
    },
}

/// Invalid value of `cpu_allocation`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAllocation {
    /// Unknown form.
    #[error(
        "{value:?} is none of all, a number, a..b, numa:auto and numa:nodes=0,1;cores=4;no_ht=true"
    )]
    Form {
        /// Value as given.
        value: String,
    },
    /// Unknown part of a `numa:` value.
    #[error("{part:?} is not a part of numa:nodes=0,1;cores=4;no_ht=true")]
    NumaPart {
        /// Part as given.
        part: String,
    },
    /// Value that results in no shard.
    #[error("{value:?} leaves no processor")]
    Empty {
        /// Value as given.
        value: String,
    },
    /// Processor that this process may not use.
    #[error("processor {cpu} is asked for, but this process may only use {available:?}")]
    NoSuchCpu {
        /// Requested processor.
        cpu: usize,
        /// Processors that the process may use.
        available: Vec<usize>,
    },
    /// More shards than processors.
    #[error("{wanted} shards are asked for, but there are {available} processors")]
    TooMany {
        /// Number of shards requested.
        wanted: usize,
        /// Number of processors available.
        available: usize,
    },
    /// NUMA node that is named twice or does not exist.
    #[error("NUMA node {node} is named twice or does not exist; there are {available:?}")]
    Node {
        /// Requested NUMA node.
        node: usize,
        /// NUMA nodes of this machine.
        available: Vec<usize>,
    },
}

impl FromStr for CpuAllocation {
    type Err = InvalidAllocation;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        let form = || InvalidAllocation::Form {
            value: value.to_owned(),
        };
        if value == "all" {
            return Ok(Self::All);
        }
        if let Some(numa) = value.strip_prefix("numa:") {
            return parse_numa(numa);
        }
        if let Some((first, end)) = value.split_once("..") {
            let first = first.trim().parse().map_err(|_| form())?;
            let end = end.trim().parse().map_err(|_| form())?;
            if first >= end {
                return Err(InvalidAllocation::Empty {
                    value: value.to_owned(),
                });
            }
            return Ok(Self::Range(first, end));
        }
        match value.trim().parse().map_err(|_| form())? {
            0 => Err(InvalidAllocation::Empty {
                value: value.to_owned(),
            }),
            count => Ok(Self::Count(count)),
        }
    }
}

fn parse_numa(text: &str) -> Result<CpuAllocation, InvalidAllocation> {
    let mut nodes = Vec::new();
    let mut cores = None;
    let mut no_hyper_threads = true;
    if text != "auto" {
        for part in text.split(';') {
            let refused = || InvalidAllocation::NumaPart {
                part: part.to_owned(),
            };
            match part.split_once('=').ok_or_else(refused)? {
                ("nodes", list) => {
                    for node in list.split(',') {
                        nodes.push(node.trim().parse().map_err(|_| refused())?);
                    }
                }
                ("cores", count) => {
                    let count: usize = count.trim().parse().map_err(|_| refused())?;
                    cores = (count > 0).then_some(count);
                }
                ("no_ht", flag) => no_hyper_threads = flag.trim().parse().map_err(|_| refused())?,
                _ => return Err(refused()),
            }
        }
        if nodes.is_empty() {
            return Err(InvalidAllocation::NumaPart {
                part: text.to_owned(),
            });
        }
    }
    Ok(CpuAllocation::Numa {
        nodes,
        cores,
        no_hyper_threads,
    })
}

impl CpuAllocation {
    /// Compute the processor of each shard; `None`: not pinned.
    pub(super) fn resolve(
        &self,
        machine: &Machine,
    ) -> Result<Vec<Option<usize>>, InvalidAllocation> {
        let available: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.id).collect();
        match self {
            Self::All => Ok(vec![None; machine.worth.min(available.len())]),
            Self::Count(count) if *count > available.len() => Err(InvalidAllocation::TooMany {
                wanted: *count,
                available: available.len(),
            }),
            Self::Count(count) if *count == available.len() => Ok(vec![None; *count]),
            Self::Count(count) => Ok(available.into_iter().take(*count).map(Some).collect()),
            Self::Range(first, end) => (*first..*end)
                .map(|cpu| {
                    if available.contains(&cpu) {
                        Ok(Some(cpu))
                    } else {
                        Err(InvalidAllocation::NoSuchCpu {
                            cpu,
                            available: available.clone(),
                        })
                    }
                })
                .collect(),
            Self::Numa {
                nodes,
                cores,
                no_hyper_threads,
            } => resolve_numa(machine, nodes, *cores, *no_hyper_threads),
        }
    }
}

fn resolve_numa(
    machine: &Machine,
    wanted: &[usize],
    cores: Option<usize>,
    no_hyper_threads: bool,
) -> Result<Vec<Option<usize>>, InvalidAllocation> {
    let existing = machine.nodes();
    let mut seen = BTreeSet::new();
    for node in wanted {
        if !existing.contains(node) || !seen.insert(*node) {
            let available = existing.iter().copied().collect();
            return Err(InvalidAllocation::Node {
                node: *node,
                available,
            });
        }
    }
    let nodes = if wanted.is_empty() { existing } else { seen };
    let mut chosen = Vec::new();
    for node in nodes {
        let mut taken_cores = BTreeSet::new();
        let of_node: Vec<usize> = machine
            .cpus
            .iter()
            .filter(|cpu| cpu.node == node)
            .filter(|cpu| !no_hyper_threads || taken_cores.insert(cpu.core))
            .map(|cpu| cpu.id)
            .collect();
        let count = cores.unwrap_or(of_node.len());
        if count > of_node.len() {
            return Err(InvalidAllocation::TooMany {
                wanted: count,
                available: of_node.len(),
            });
        }
        chosen.extend(of_node.into_iter().take(count));
    }
    let named = !wanted.is_empty() || cores.is_some();
    // With a CPU quota, shards on all processors would each run only part of the time. The quota does not say which
    // processors to use: other containers may have pinned themselves to the first ones.
    if !named && chosen.len() > machine.worth {
        return Ok(vec![None; machine.worth]);
    }
    // All processors are used and none was named: as with `all`, the kernel places the shards.
    let pinned = named || chosen.len() < machine.cpus.len();
    Ok(chosen
        .into_iter()
        .map(|cpu| pinned.then_some(cpu))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{super::topology::Cpu, *};

    /// Two nodes of two cores with two threads each: 0..4 and 4..8.
    fn machine() -> Machine {
        Machine {
            cpus: (0..8)
                .map(|id| Cpu {
                    id,
                    node: id / 4,
                    core: id / 2 * 2,
                })
                .collect(),
            worth: 8,
        }
    }

    fn resolve(value: &str) -> Result<Vec<Option<usize>>, InvalidAllocation> {
        value.parse::<CpuAllocation>()?.resolve(&machine())
    }

    /// SHARD-2: every form of the setting.
    #[test]
    fn every_form_gives_its_processors() {
        assert_eq!(resolve("all"), Ok(vec![None; 8]));
        assert_eq!(resolve("8"), Ok(vec![None; 8]));
        assert_eq!(resolve("2"), Ok(vec![Some(0), Some(1)]));
        assert_eq!(resolve("5..8"), Ok(vec![Some(5), Some(6), Some(7)]));
        assert_eq!(
            resolve("numa:auto"),
            Ok(vec![Some(0), Some(2), Some(4), Some(6)])
        );
        assert_eq!(resolve("numa:nodes=1"), Ok(vec![Some(4), Some(6)]));
        assert_eq!(
            resolve("numa:nodes=0,1;cores=1;no_ht=false"),
            Ok(vec![Some(0), Some(4)])
        );
    }

    /// A container with a quota of two processors on a machine with eight.
    #[test]
    fn a_quota_bounds_what_was_not_asked_for_by_number() {
        let machine = Machine {
            worth: 2,
            ..machine()
        };
        let resolve = |value: &str| value.parse::<CpuAllocation>()?.resolve(&machine);
        assert_eq!(resolve("all"), Ok(vec![None; 2]));
        assert_eq!(resolve("numa:auto"), Ok(vec![None; 2]));
        assert_eq!(resolve("4..7"), Ok(vec![Some(4), Some(5), Some(6)]));
        assert_eq!(resolve("3"), Ok(vec![Some(0), Some(1), Some(2)]));
    }

    /// A process that may not use the first processors: numbers are those of the machine.
    #[test]
    fn a_mask_bounds_everything() {
        let mut machine = machine();
        machine.cpus.retain(|cpu| cpu.id >= 3);
        machine.worth = 5;
        let resolve = |value: &str| value.parse::<CpuAllocation>()?.resolve(&machine);
        assert_eq!(resolve("all"), Ok(vec![None; 5]));
        assert_eq!(resolve("2"), Ok(vec![Some(3), Some(4)]));
        assert_eq!(resolve("numa:auto"), Ok(vec![Some(3), Some(4), Some(6)]));
        assert!(matches!(
            resolve("2..4"),
            Err(InvalidAllocation::NoSuchCpu { cpu: 2, .. })
        ));
        assert!(matches!(
            resolve("6"),
            Err(InvalidAllocation::TooMany {
                wanted: 6,
                available: 5
            })
        ));
    }

    /// SHARD-2: invalid values are refused with a message.
    #[test]
    fn bad_values_are_refused() {
        for value in [
            "",
            "none",
            "0",
            "-1",
            "9",
            "3..3",
            "5..3",
            "6..9",
            "a..b",
            "numa:",
            "numa:nodes=",
            "numa:nodes=2",
            "numa:nodes=0,0",
            "numa:cores=2",
            "numa:nodes=0;cores=3",
            "numa:nodes=0;speed=3",
            "numa:nodes=0;no_ht=maybe",
            "4 cores",
            "1..",
            "..2",
            "1..18446744073709551616",
            "0..18446744073709551615",
        ] {
            let refused = resolve(value).expect_err(value);
            assert!(!refused.to_string().is_empty());
        }
    }
}
