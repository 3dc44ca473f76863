//! Statistics of a server.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Statistics of a server: response to `GetStats`. On the wire the fields follow one another in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats<'a> {
    /// Process id of the server.
    pub process_id: u32,
    /// CPU usage of the process, percent.
    pub cpu_usage: f32,
    /// CPU usage of the machine, percent.
    pub total_cpu_usage: f32,
    /// Memory of the process, bytes.
    pub memory_usage: u64,
    /// Total memory of the machine, bytes.
    pub total_memory: u64,
    /// Available memory of the machine, bytes.
    pub available_memory: u64,
    /// Microseconds since the server started.
    pub run_time: u64,
    /// Microseconds since the Unix epoch.
    pub start_time: u64,
    /// Number of bytes that the process read from disks.
    pub read_bytes: u64,
    /// Number of bytes that the process wrote to disks.
    pub written_bytes: u64,
    /// Bytes of all messages, headers included.
    pub messages_size_bytes: u64,
    /// Number of streams.
    pub streams_count: u32,
    /// Number of topics in all streams.
    pub topics_count: u32,
    /// Number of partitions of all topics.
    pub partitions_count: u32,
    /// Number of segments of all partitions.
    pub segments_count: u32,
    /// Number of messages in all partitions.
    pub messages_count: u64,
    /// Number of connections.
    pub clients_count: u32,
    /// Number of consumer groups of all topics.
    pub consumer_groups_count: u32,
    /// Host name.
    pub hostname: &'a str,
    /// Name of the operating system.
    pub os_name: &'a str,
    /// Version of the operating system.
    pub os_version: &'a str,
    /// The kernel's version.
    pub kernel_version: &'a str,
    /// The server's version as text.
    pub server_version: &'a str,
    /// Version of the server as a number, see [`semantic_version`]; 0 means unknown.
    pub server_semver: u32,
    /// Hits and misses per partition, preceded by their count on the wire. The reference server never sends any.
    pub cache_metrics: Vec<CacheMetrics>,
    /// Number of threads of the process.
    pub threads_count: u32,
    /// Free bytes on the disk with the data directory.
    pub free_disk_space: u64,
    /// Total bytes of the disk with the data directory.
    pub total_disk_space: u64,
}

/// Cache use of one partition.
///
/// Layout: `u32 stream_id · u32 topic_id · u32 partition_id · u64 hits · u64 misses · f32 hit_ratio`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheMetrics {
    /// The stream.
    pub stream_id: u32,
    /// The topic within the stream.
    pub topic_id: u32,
    /// The partition within the topic.
    pub partition_id: u32,
    /// Number of reads answered from the cache.
    pub hits: u64,
    /// Number of reads that went to the disk.
    pub misses: u64,
    /// Ratio of hits to reads, 0 to 1.
    pub hit_ratio: f32,
}

payload!(Stats<'a>);
payload!(CacheMetrics);

/// Version as one decimal number with three digits for minor and patch: 1.2.3 is 1002003.
///
/// `None` if minor or patch need more digits, or the result overflows.
pub const fn semantic_version(major: u32, minor: u32, patch: u32) -> Option<u32> {
    if minor > 999 || patch > 999 {
        return None;
    }
    let Some(major) = major.checked_mul(1_000_000) else {
        return None;
    };
    major.checked_add(minor * 1000 + patch)
}

impl<'a> Part<'a> for Stats<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            process_id: reader.u32()?,
            cpu_usage: reader.f32()?,
            total_cpu_usage: reader.f32()?,
            memory_usage: reader.u64()?,
            total_memory: reader.u64()?,
            available_memory: reader.u64()?,
            run_time: reader.u64()?,
            start_time: reader.u64()?,
            read_bytes: reader.u64()?,
            written_bytes: reader.u64()?,
            messages_size_bytes: reader.u64()?,
            streams_count: reader.u32()?,
            topics_count: reader.u32()?,
            partitions_count: reader.u32()?,
            segments_count: reader.u32()?,
            messages_count: reader.u64()?,
            clients_count: reader.u32()?,
            consumer_groups_count: reader.u32()?,
            hostname: reader.str32()?,
            os_name: reader.str32()?,
            os_version: reader.str32()?,
            kernel_version: reader.str32()?,
            server_version: reader.str32()?,
            server_semver: reader.u32()?,
            cache_metrics: {
                let count = reader.u32()?;
                read_counted(reader, count)?
            },
            threads_count: reader.u32()?,
            free_disk_space: reader.u64()?,
            total_disk_space: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.process_id);
        out.f32(self.cpu_usage);
        out.f32(self.total_cpu_usage);
        out.u64(self.memory_usage);
        out.u64(self.total_memory);
        out.u64(self.available_memory);
        out.u64(self.run_time);
        out.u64(self.start_time);
        out.u64(self.read_bytes);
        out.u64(self.written_bytes);
        out.u64(self.messages_size_bytes);
        out.u32(self.streams_count);
        out.u32(self.topics_count);
        out.u32(self.partitions_count);
        out.u32(self.segments_count);
        out.u64(self.messages_count);
        out.u32(self.clients_count);
        out.u32(self.consumer_groups_count);
        out.str32(self.hostname);
        out.str32(self.os_name);
        out.str32(self.os_version);
        out.str32(self.kernel_version);
        out.str32(self.server_version);
        out.u32(self.server_semver);
        out.count(self.cache_metrics.len());
        write_all(&self.cache_metrics, out);
        out.u32(self.threads_count);
        out.u64(self.free_disk_space);
        out.u64(self.total_disk_space);
    }
}

impl<'a> Part<'a> for CacheMetrics {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            stream_id: reader.u32()?,
            topic_id: reader.u32()?,
            partition_id: reader.u32()?,
            hits: reader.u64()?,
            misses: reader.u64()?,
            hit_ratio: reader.f32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.stream_id);
        out.u32(self.topic_id);
        out.u32(self.partition_id);
        out.u64(self.hits);
        out.u64(self.misses);
        out.f32(self.hit_ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers() {
        assert_eq!(semantic_version(0, 8, 0), Some(8000));
        assert_eq!(semantic_version(1, 2, 3), Some(1_002_003));
        assert_eq!(semantic_version(0, 1000, 0), None);
        assert_eq!(semantic_version(0, 0, 1000), None);
        assert_eq!(semantic_version(4295, 0, 0), None);
    }
}
