//! Staged messages that are committed and not yet appended, and aborted ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{Namespace, PartitionId, StageId, StreamId, TopicId};
use headrace_proto::catalog::v1;

use crate::{ApplyError, Catalog};

/// Stages per partition, ascending by the number of the command.
pub(crate) type StagesByPartition = Arc<BTreeMap<Namespace, Arc<Vec<Arc<Stages>>>>>;

/// Stages of one partition that one command has committed or aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages {
    /// Number of the command: publications of a partition are appended once, in ascending order.
    pub number: u64,
    /// Incarnation of the partition.
    pub partition_incarnation: u64,
    /// Stages, in the order in which they are appended.
    pub ids: Vec<StageId>,
}

/// Stream, topic and partition, as in a record.
type PartitionKey = (u32, u32, u32);

impl Catalog {
    /// Publications that the leader of a partition has yet to append, ascending by number.
    pub fn publications_of(&self, partition: Namespace) -> &[Arc<Stages>] {
        self.publications.get(&partition).map_or(&[], |of| of)
    }

    /// Pending publications of all partitions, ascending by partition and number.
    pub fn publications(&self) -> impl Iterator<Item = (Namespace, &Arc<Stages>)> {
        each(&self.publications)
    }

    /// Aborted stages of a partition, ascending by the number of the command that aborted them. No commit may name them
    /// any more. They are listed until they have expired.
    pub fn aborted_stages_of(&self, partition: Namespace) -> &[Arc<Stages>] {
        self.aborted_stages.get(&partition).map_or(&[], |of| of)
    }

    /// Aborted stages of all partitions, ascending by partition and number.
    pub fn aborted_stages(&self) -> impl Iterator<Item = (Namespace, &Arc<Stages>)> {
        each(&self.aborted_stages)
    }

    /// Return whether no stage was committed, appended or aborted since `other`, by comparison of pointers: false may
    /// be a false alarm.
    pub fn shares_stages_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.publications, &other.publications)
            && Arc::ptr_eq(&self.aborted_stages, &other.aborted_stages)
    }

    pub(crate) fn put_publication(
        &mut self,
        record: &v1::PendingPublication,
    ) -> Result<(), ApplyError> {
        let place = (record.stream_id, record.topic_id, record.partition_id);
        let incarnation = record.partition_incarnation;
        let stages = Stages::new(place, incarnation, record.number, &record.stage_ids)?;
        let namespace = self.staged_at(place, incarnation)?;
        put(&mut self.publications, namespace, stages);
        Ok(())
    }

    pub(crate) fn put_aborted_stages(
        &mut self,
        record: &v1::AbortedStages,
    ) -> Result<(), ApplyError> {
        let place = (record.stream_id, record.topic_id, record.partition_id);
        let incarnation = record.partition_incarnation;
        let stages = Stages::new(place, incarnation, record.number, &record.stage_ids)?;
        let namespace = self.staged_at(place, incarnation)?;
        put(&mut self.aborted_stages, namespace, stages);
        Ok(())
    }

    pub(crate) fn remove_publications(
        &mut self,
        key: &v1::PublicationKey,
    ) -> Result<(), ApplyError> {
        let namespace = namespace((key.stream_id, key.topic_id, key.partition_id))?;
        retain(&mut self.publications, namespace, |stages| {
            stages.number > key.number
        });
        Ok(())
    }

    pub(crate) fn remove_aborted_stages(
        &mut self,
        key: &v1::PublicationKey,
    ) -> Result<(), ApplyError> {
        let namespace = namespace((key.stream_id, key.topic_id, key.partition_id))?;
        retain(&mut self.aborted_stages, namespace, |stages| {
            stages.number != key.number
        });
        Ok(())
    }

    pub(crate) fn remove_stages(&mut self, of: &impl Fn(StreamId, TopicId) -> bool) {
        for stages in [&mut self.publications, &mut self.aborted_stages] {
            // Look up before `make_mut`: an unchanged map must stay shared.
            if stages.keys().any(|place| of(place.stream(), place.topic())) {
                Arc::make_mut(stages).retain(|place, _| !of(place.stream(), place.topic()));
            }
        }
    }

    fn staged_at(&self, place: PartitionKey, incarnation: u64) -> Result<Namespace, ApplyError> {
        let namespace = namespace(place)?;
        let partition = self
            .stream_by_id(namespace.stream())
            .and_then(|stream| stream.topic_by_id(namespace.topic()))
            .and_then(|topic| topic.partition(namespace.partition()));
        match partition {
            None => Err(invalid(place, "the partition does not exist")),
            Some(partition) if partition.incarnation != incarnation => {
                Err(invalid(place, "the partition is another one"))
            }
            Some(_) => Ok(namespace),
        }
    }
}

impl Stages {
    fn new(
        place: PartitionKey,
        partition_incarnation: u64,
        number: u64,
        ids: &[Vec<u8>],
    ) -> Result<Self, ApplyError> {
        let ids = ids.iter().map(|id| StageId::from_bytes(id));
        let Some(ids) = ids.collect() else {
            return Err(invalid(place, "the id of a stage is not 16 bytes"));
        };
        Ok(Self {
            number,
            partition_incarnation,
            ids,
        })
    }

    pub(crate) fn to_publication(&self, namespace: Namespace) -> v1::PendingPublication {
        v1::PendingPublication {
            stream_id: namespace.stream().0,
            topic_id: namespace.topic().0,
            partition_id: namespace.partition().0,
            partition_incarnation: self.partition_incarnation,
            number: self.number,
            stage_ids: self.id_bytes(),
        }
    }

    pub(crate) fn to_aborted(&self, namespace: Namespace) -> v1::AbortedStages {
        v1::AbortedStages {
            stream_id: namespace.stream().0,
            topic_id: namespace.topic().0,
            partition_id: namespace.partition().0,
            partition_incarnation: self.partition_incarnation,
            number: self.number,
            stage_ids: self.id_bytes(),
        }
    }

    fn id_bytes(&self) -> Vec<Vec<u8>> {
        self.ids.iter().map(|id| id.to_bytes().to_vec()).collect()
    }
}

fn each(stages: &StagesByPartition) -> impl Iterator<Item = (Namespace, &Arc<Stages>)> {
    stages
        .iter()
        .flat_map(|(namespace, of)| of.iter().map(move |stages| (*namespace, stages)))
}

fn put(all: &mut StagesByPartition, namespace: Namespace, stages: Stages) {
    let of = Arc::make_mut(all).entry(namespace).or_default();
    let of = Arc::make_mut(of);
    match of.binary_search_by_key(&stages.number, |stages| stages.number) {
        Ok(known) => of[known] = Arc::new(stages),
        Err(place) => of.insert(place, Arc::new(stages)),
    }
}

fn retain(all: &mut StagesByPartition, namespace: Namespace, keep: impl Fn(&Stages) -> bool) {
    // Look up before `make_mut`: an unchanged map must stay shared.
    if (all.get(&namespace)).is_none_or(|of| of.iter().all(|stages| keep(stages))) {
        return;
    }
    let all = Arc::make_mut(all);
    if let Some(of) = all.get_mut(&namespace) {
        let of = Arc::make_mut(of);
        of.retain(|stages| keep(stages));
        if of.is_empty() {
            all.remove(&namespace);
        }
    }
}

fn namespace(place: PartitionKey) -> Result<Namespace, ApplyError> {
    let (stream, topic, partition) = place;
    Namespace::new(StreamId(stream), TopicId(topic), PartitionId(partition))
        .map_err(|_| invalid(place, "its number exceeds the range"))
}

fn invalid((stream, topic, partition): PartitionKey, reason: &'static str) -> ApplyError {
    ApplyError::InvalidStages {
        stream_id: StreamId(stream),
        topic_id: TopicId(topic),
        partition_id: PartitionId(partition),
        reason,
    }
}
