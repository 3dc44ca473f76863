import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { Partition, TopicDetails } from "../../api/types.ts";
import { bytes, count, plural, time } from "../../format.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";

const STATES = {
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
  const [asked, setAsked] = useState<"add" | "delete" | null>(null);
  const [partition, setPartition] = useState<Partition | null>(null);
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
      cell: (row) => <span class={row.state === "serving" ? "quiet" : "badge bad"}>{STATES[row.state]}</span>,
    },
    { title: "Created", kind: "number", cell: (row) => time(row.created_at).slice(0, 19) },
    {
      title: "Actions",
      isTitleHidden: true,
      kind: "fit",
      cell: (row) => (
        <button
          type="button"
          class="button small"
          aria-label={`Delete segments of partition ${row.id}`}
          onClick={() => setPartition(row)}
        >
          Delete segments
        </button>
      ),
    },
  ];
  return (
    <Panel
      title="Partitions"
      actions={
        <>
          <button type="button" class="button small" onClick={() => setAsked("add")}>
            Add
          </button>
          <button
            type="button"
            class="button small danger"
            disabled={topic.partitions.length === 0}
            onClick={() => setAsked("delete")}
          >
            Delete
          </button>
        </>
      }
    >
      <Table
        label="Partitions"
        columns={columns}
        rows={topic.partitions}
        id={(row) => row.id}
        empty="This topic has no partitions: nothing can be sent to it."
      />
      {asked === "add" && (
        <HowMany
          title="Add partitions"
          action="Add"
          text="Keys are dealt out to other partitions from then on."
          onClose={() => setAsked(null)}
          onSubmit={async (amount) => {
            await request("POST", `${path}/partitions`, { partitions_count: amount });
            toast(`${plural(amount, "partition")} added.`);
            onDone();
          }}
        />
      )}
      {asked === "delete" && (
        <HowMany
          title="Delete partitions"
          action="Delete"
          isDangerous
          text="Deletes those with the highest ids, and the messages in them."
          onClose={() => setAsked(null)}
          onSubmit={async (amount) => {
            await request("DELETE", `${path}/partitions?partitions_count=${amount}`);
            toast(`${plural(amount, "partition")} deleted.`);
            onDone();
          }}
        />
      )}
      {partition && (
        <HowMany
          title={`Delete segments of partition ${partition.id}`}
          action="Delete"
          isDangerous
          text="Deletes the oldest ones. What a consumer has not read yet stays, and the segment that is written to."
          onClose={() => setPartition(null)}
          onSubmit={async (amount) => {
            await request("DELETE", `${path}/partitions/${partition.id}?segments_count=${amount}`);
            toast(`The oldest segments of partition ${partition.id} were deleted.`);
            onDone();
          }}
        />
      )}
    </Panel>
  );
}

interface HowManyProps {
  title: string;
  action: string;
  text: string;
  isDangerous?: boolean;
  onClose: () => void;
  onSubmit: (amount: number) => Promise<void>;
}

function HowMany({ title, action, text, isDangerous = false, onClose, onSubmit }: HowManyProps) {
  const [amount, setAmount] = useState("1");
  return (
    <FormDialog
      title={title}
      action={action}
      isDangerous={isDangerous}
      onClose={onClose}
      onSubmit={() => onSubmit(Number(amount))}
    >
      <p>{text}</p>
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
