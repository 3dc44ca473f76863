//! Failed reads already reported: a consumer that retries at a damaged message asks again and again.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use headrace_log::ReadError;
use headrace_model::{Level, Namespace, Offset};
use headrace_partition::PartitionError;

use crate::api::Effect;

/// Maximum number of places remembered. Beyond it all are forgotten, and persisting failures are reported once more.
const REMEMBERED_MAX: usize = 1024;

/// Places of damage that were reported.
#[derive(Default)]
pub(crate) struct DamageReports {
    reported: HashSet<(Namespace, Option<Offset>), FixedState>,
}

impl DamageReports {
    /// Report damaged storage that made a client's request fail.
    pub(crate) fn report(&mut self, error: &PartitionError, effects: &mut Vec<Effect>) {
        let place = match error {
            PartitionError::Read(ReadError::Damaged {
                namespace, offset, ..
            }) => (*namespace, Some(*offset)),
            PartitionError::Read(ReadError::Storage { namespace, .. }) => (*namespace, None),
            _ => return,
        };
        if self.reported.len() == REMEMBERED_MAX {
            self.reported.clear();
        }
        if self.reported.insert(place) {
            effects.push(Effect::Report {
                level: Level::Error,
                message: error.to_string(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_log::storage::FileName;
    use headrace_model::{PartitionId, StreamId, TopicId};

    use super::*;

    #[test]
    fn each_damaged_place_is_reported_once() {
        let damaged = |offset| {
            PartitionError::Read(ReadError::Damaged {
                namespace: Namespace::new(StreamId(0), TopicId(0), PartitionId(3)).unwrap(),
                offset: Offset(offset),
                file: FileName::Log(Offset(40)),
                position: 512,
            })
        };
        let mut reports = DamageReports::default();
        let mut effects = Vec::new();
        for error in [
            damaged(50),
            damaged(50),
            PartitionError::Busy,
            damaged(51),
            damaged(50),
        ] {
            reports.report(&error, &mut effects);
        }
        let reported: Vec<&str> = effects
            .iter()
            .map(|effect| match effect {
                Effect::Report { message, .. } => message.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(reported.len(), 2);
        for word in ["0/0/3", "50", "00000000000000000040.log", "512"] {
            assert!(reported[0].contains(word), "{}", reported[0]);
        }
    }
}
