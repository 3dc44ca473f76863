import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { TopicDetails } from "../../api/types.ts";
import { plural } from "../../format.ts";
import { go } from "../../router.ts";
import { Danger } from "../../ui/danger.tsx";
import { ChoiceField, TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";

interface TopicDangerProps {
  path: string;
  stream: number;
  topic: TopicDetails;
  onDone: () => void;
}

export function TopicDanger({ path, stream, topic, onDone }: TopicDangerProps) {
  const [partition, setPartition] = useState(String(topic.partitions[0]?.id ?? 0));
  const [segments, setSegments] = useState("1");
  const [partitions, setPartitions] = useState("1");
  const { name } = topic;
  const amount = (label: string, value: string, onValue: (value: string) => void) => (
    <TextField
      label={label}
      type="number"
      value={value}
      onValue={onValue}
      min={1}
      max={1000}
      required
      isFirst
    />
  );
  return (
    <Danger
      actions={[
        {
          title: `Purge ${name}`,
          action: "Purge",
          text: `Drops ${plural(topic.messages_count, "message")} and every stored offset. Offsets begin at 0 again.`,
          name,
          onConfirm: async () => {
            await request("DELETE", `${path}/purge`);
            toast(`Topic ${name} was purged.`);
            onDone();
          },
        },
        {
          title: "Delete the oldest segments of a partition",
          action: "Delete segments",
          text: "What a consumer has not read yet stays, and the segment that is written to.",
          name,
          fields: (
            <div class="form-row">
              <ChoiceField
                label="Partition"
                value={partition}
                options={topic.partitions.map(({ id }) => [String(id), String(id)] as const)}
                onValue={setPartition}
              />
              {amount("How many segments", segments, setSegments)}
            </div>
          ),
          onConfirm: async () => {
            await request("DELETE", `${path}/partitions/${partition}?segments_count=${Number(segments)}`);
            toast(`The oldest segments of partition ${partition} were deleted.`);
            onDone();
          },
        },
        {
          title: "Delete partitions",
          action: "Delete partitions",
          text: "Deletes those with the highest ids, and the messages in them. Keys are dealt out to other partitions.",
          name,
          fields: amount("How many partitions", partitions, setPartitions),
          onConfirm: async () => {
            await request("DELETE", `${path}/partitions?partitions_count=${Number(partitions)}`);
            toast(`${plural(Number(partitions), "partition")} deleted.`);
            onDone();
          },
        },
        {
          title: `Delete ${name}`,
          action: "Delete the topic",
          text: `Deletes ${plural(topic.partitions_count, "partition")} with ${plural(topic.messages_count, "message")}, and the consumer groups.`,
          name,
          onConfirm: async () => {
            await request("DELETE", path);
            toast(`Topic ${name} was deleted.`);
            go("streams", stream);
          },
        },
      ]}
    />
  );
}
