/** What the HTTP interface answers, as far as the console shows it. Times are microseconds since the Unix epoch. */

export interface Stats {
  process_id: number;
  cpu_usage: number;
  total_cpu_usage: number;
  memory_usage: number;
  total_memory: number;
  available_memory: number;
  run_time: number;
  start_time: number;
  read_bytes: number;
  written_bytes: number;
  messages_size_bytes: number;
  streams_count: number;
  topics_count: number;
  partitions_count: number;
  segments_count: number;
  messages_count: number;
  clients_count: number;
  consumer_groups_count: number;
  hostname: string;
  os_name: string;
  os_version: string;
  kernel_version: string;
  iggy_server_version: string;
  threads_count: number;
  free_disk_space: number;
  total_disk_space: number;
}

export interface Stream {
  id: number;
  created_at: number;
  name: string;
  size: number;
  messages_count: number;
  topics_count: number;
}

export interface Topic {
  id: number;
  created_at: number;
  name: string;
  size: number;
  message_expiry: number;
  max_topic_size: number;
  messages_count: number;
  partitions_count: number;
}

export interface StreamDetails extends Stream {
  topics: Topic[];
}

export interface Partition {
  id: number;
  created_at: number;
  segments_count: number;
  current_offset: number;
  size: number;
  messages_count: number;
}

export interface TopicDetails extends Topic {
  partitions: Partition[];
}
