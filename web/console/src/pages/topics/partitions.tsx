import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { Partition, TopicDetails } from "../../api/types.ts";
import { bytes, count, plural, time } from "../../format.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";

/** States of partitions in words. */
export const PARTITION_STATES = {
  serving: "serving",
  failed: "failed",
  unreachable: "node not reached",
  unplaced: "on no node",
} as const;

interface PartitionsProps {
  path: string;
  topic: TopicDetails;
  onDone: () => void;
}

export function Partitions({ path, topic, onDone }: PartitionsProps) {
  const [isAdding, setAdding] = useState(false);
  const columns: Column<Partition>[] = [
    { title: "Partition", isHead: true, kind: "fit", cell: (row) => row.id },
    { title: "Messages", kind: "number", cell: (row) => count(row.messages_count) },
    { title: "First offset", kind: "number", cell: (row) => count(row.first_offset) },
    {
      title: "Last offset",
      kind: "number",
      cell: (row) => (row.messages_count ? count(row.current_offset) : "–"),
    },
    { title: "Size", kind: "number", cell: (row) => bytes(row.size) },
    { title: "Segments", kind: "number", cell: (row) => count(row.segments_count) },
    {
      title: "Next deletion",
      kind: "number",
      cell: (row) => (row.next_deletion === null ? "–" : time(row.next_deletion).slice(0, 19)),
    },
    ...(topic.partitions.some(({ node }) => node !== null)
      ? [{ title: "Node", cell: (row: Partition) => row.node ?? "–" }]
      : []),
    {
      title: "State",
      kind: "fit",
      cell: (row) => (
        <span class={row.state === "serving" ? "quiet" : "badge bad"}>{PARTITION_STATES[row.state]}</span>
      ),
    },
    { title: "Created", kind: "number", cell: (row) => time(row.created_at).slice(0, 19) },
  ];
  return (
    <Panel
      title="Partitions"
      actions={
        <button type="button" class="button small" onClick={() => setAdding(true)}>
          Add
        </button>
      }
    >
      <Table
        label="Partitions"
        columns={columns}
        rows={topic.partitions}
        id={(row) => row.id}
        empty="This topic has no partitions: nothing can be sent to it."
      />
      {isAdding && (
        <AddPartitions
          onClose={() => setAdding(false)}
          onSubmit={async (amount) => {
            await request("POST", `${path}/partitions`, { partitions_count: amount });
            toast(`${plural(amount, "partition")} added.`);
            onDone();
          }}
        />
      )}
    </Panel>
  );
}

interface AddPartitionsProps {
  onClose: () => void;
  onSubmit: (amount: number) => Promise<void>;
}

function AddPartitions({ onClose, onSubmit }: AddPartitionsProps) {
  const [amount, setAmount] = useState("1");
  return (
    <FormDialog
      title="Add partitions"
      action="Add"
      onClose={onClose}
      onSubmit={() => onSubmit(Number(amount))}
    >
      <p>Keys are dealt out to other partitions from then on.</p>
      <TextField
        label="How many"
        type="number"
        value={amount}
        onValue={setAmount}
        min={1}
        max={1000}
        required
        isFirst
      />
    </FormDialog>
  );
}
