import { useState } from "preact/hooks";
import { lagPath, move, type Reader, type Target } from "../../api/offsets.ts";
import type { Lag, PartitionLag } from "../../api/types.ts";
import { count, duration, plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { ChoiceField, TextField } from "../../ui/fields.tsx";
import { ErrorNotice, toast } from "../../ui/notices.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { ClientLink, type GroupMember } from "./group_clients.tsx";

interface LagProps {
  /** Path of the topic. */
  path: string;
  reader: Reader;
  label: string;
  /** Members of a group whose connections are known. */
  members?: readonly GroupMember[];
  /** Reason why offsets cannot be changed now, if any. */
  refusal?: string | null;
}

export function LagTable({ path, reader, label, members = [], refusal = null }: LagProps) {
  const { data: lag, error, reload } = usePolled<Lag>(lagPath(path, reader), 1500);
  const [moved, setMoved] = useState<readonly number[] | null>(null);
  const columns: Column<PartitionLag>[] = [
    { title: "Partition", kind: "fit", isHead: true, cell: (row) => row.partition_id },
    {
      title: "Stored offset",
      kind: "number",
      cell: (row) => (row.lag_messages === null ? "–" : offset(row.stored_offset)),
    },
    { title: "Last offset", kind: "number", cell: (row) => offset(row.last_offset) },
    {
      title: "Lag",
      kind: "number",
      cell: ({ lag_messages }) =>
        lag_messages === null ? <span class="badge bad">node not reached</span> : count(lag_messages),
    },
    { title: "Behind by", kind: "number", cell: (row) => behind(row.lag_seconds) },
    ...(reader.isGroup
      ? [{ title: "Member", cell: ({ member }: PartitionLag) => memberCell(member, members) } as const]
      : []),
    {
      title: "Actions",
      isTitleHidden: true,
      kind: "fit",
      cell: (row) => (
        <button
          type="button"
          class="button small"
          disabled={refusal !== null}
          aria-label={`Reset the offset of ${label} in partition ${row.partition_id}`}
          onClick={() => setMoved([row.partition_id])}
        >
          Reset
        </button>
      ),
    },
  ];
  if (error && !lag) return <ErrorNotice error={error} />;
  return (
    <>
      {lag && (
        <div class="lag-head">
          <p>
            <strong>{plural(lag.lag_messages, "message")}</strong> behind
            {lag.lag_seconds !== null && lag.lag_seconds > 0 && `, the oldest for ${behind(lag.lag_seconds)}`}
            {lag.partitions.some(({ lag_messages }) => lag_messages === null) && ", as far as it can be read"}
            {refusal && <span class="quiet"> · {refusal}</span>}
          </p>
          <button
            type="button"
            class="button small"
            disabled={refusal !== null || lag.partitions.length === 0}
            aria-label={`Reset all offsets of ${label}`}
            onClick={() => setMoved(lag.partitions.map(({ partition_id }) => partition_id))}
          >
            Reset all
          </button>
        </div>
      )}
      <Table
        label={`Offsets of ${label}`}
        columns={columns}
        rows={lag?.partitions}
        id={(row) => row.partition_id}
        empty="The topic has no partitions."
      />
      {moved && (
        <Reset
          label={label}
          partitions={moved}
          onClose={() => setMoved(null)}
          onSubmit={async (target) => {
            await move(path, reader, moved, target);
            toast(`Offsets of ${label} were reset in ${plural(moved.length, "partition")}.`);
            reload();
          }}
        />
      )}
    </>
  );
}

interface ResetProps {
  label: string;
  partitions: readonly number[];
  onClose: () => void;
  onSubmit: (target: Target) => Promise<void>;
}

type Where = "first" | "end" | "offset" | "time";

function Reset({ label, partitions, onClose, onSubmit }: ResetProps) {
  const [where, setWhere] = useState<Where>("first");
  const [value, setValue] = useState("");
  const target = (): Target => {
    if (where === "offset") return { offset: Number(value) };
    return where === "time" ? { time: new Date(value) } : where;
  };
  return (
    <FormDialog
      title={`Reset ${label} in ${partitions.length === 1 ? `partition ${partitions[0]}` : "all partitions"}`}
      action="Reset"
      onClose={onClose}
      onSubmit={() => onSubmit(target())}
    >
      <ChoiceField
        label="Go on reading"
        value={where}
        options={[
          ["first", "with the first message"],
          ["end", "with what comes from now on"],
          ["offset", "at an offset"],
          ["time", "at a time"],
        ]}
        onValue={(chosen) => {
          setWhere(chosen);
          setValue("");
        }}
      />
      {where === "offset" && (
        <TextField
          label="Offset of the next message"
          type="number"
          min={0}
          value={value}
          onValue={setValue}
          required
        />
      )}
      {where === "time" && (
        <TextField label="Time" type="datetime-local" value={value} onValue={setValue} required />
      )}
    </FormDialog>
  );
}

/** The client, if it is known; otherwise the id within the group. */
function memberCell(member: number | null, members: readonly GroupMember[]) {
  if (member === null) return "–";
  const known = members.find((candidate) => candidate.member === member);
  return known === undefined ? `member ${member}` : <ClientLink id={known.client.client_id} />;
}

function offset(value: number | null): string {
  return value === null ? "none" : count(value);
}

function behind(seconds: number | null): string {
  if (seconds === null) return "–";
  return seconds === 0 ? "0 s" : duration(seconds);
}
