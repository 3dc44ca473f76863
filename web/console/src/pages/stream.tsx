import { useState } from "preact/hooks";
import { request } from "../api/request.ts";
import type { StreamDetails, Topic } from "../api/types.ts";
import { bytes, count, expiry, plural, sizeLimit } from "../format.ts";
import { usePolled } from "../polled.ts";
import { go, to } from "../router.ts";
import { Confirm, FormDialog } from "../ui/dialog.tsx";
import { ChoiceField, TextField } from "../ui/fields.tsx";
import { toast } from "../ui/notices.tsx";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

type Asked = "create" | "rename" | "purge" | "delete";

export function StreamPage({ id }: { id: string }) {
  const { data: stream, error, reload } = usePolled<StreamDetails>(`/streams/${id}?sizes=bytes`, 2000);
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const columns: Column<Topic>[] = [
    {
      title: "Name",
      isHead: true,
      cell: (row) => <a href={to("streams", id, "topics", row.id)}>{row.name}</a>,
    },
    { title: "Id", kind: "number", cell: (row) => row.id },
    { title: "Partitions", kind: "number", cell: (row) => count(row.partitions_count) },
    { title: "Messages", kind: "number", cell: (row) => count(row.messages_count) },
    { title: "Size", kind: "number", cell: (row) => bytes(row.size) },
    { title: "Expiry", kind: "number", cell: (row) => expiry(row.message_expiry) },
    { title: "Size limit", kind: "number", cell: (row) => sizeLimit(row.max_topic_size) },
  ];
  return (
    <Page
      title={stream?.name ?? `Stream ${id}`}
      crumbs={[{ label: "Streams", href: to("streams") }]}
      error={error}
      aside={
        stream && (
          <p class="quiet">
            Stream {stream.id} · {plural(stream.messages_count, "message")} · {bytes(stream.size)}
          </p>
        )
      }
      actions={
        stream && (
          <>
            <button type="button" class="button" onClick={() => setAsked("rename")}>
              Rename
            </button>
            <button type="button" class="button danger" onClick={() => setAsked("purge")}>
              Purge
            </button>
            <button type="button" class="button danger" onClick={() => setAsked("delete")}>
              Delete
            </button>
            <button type="button" class="button primary" onClick={() => setAsked("create")}>
              Create a topic
            </button>
          </>
        )
      }
    >
      {stream && (
        <div class="panel">
          <Table
            label="Topics"
            columns={columns}
            rows={stream.topics}
            id={(row) => row.id}
            empty="There are no topics in this stream yet."
          />
        </div>
      )}
      {stream && asked === "create" && <CreateTopic stream={stream.id} onClose={close} onDone={reload} />}
      {stream && asked === "rename" && <Rename stream={stream} onClose={close} onDone={reload} />}
      {stream && asked === "purge" && (
        <Confirm
          title={`Purge ${stream.name}`}
          action="Purge"
          name={stream.name}
          onClose={close}
          onConfirm={async () => {
            await request("DELETE", `/streams/${id}/purge`);
            toast(`Stream ${stream.name} was purged.`);
            reload();
          }}
        >
          Drops {plural(stream.messages_count, "message")} and every stored offset of{" "}
          {plural(stream.topics.length, "topic")}. The topics stay.
        </Confirm>
      )}
      {stream && asked === "delete" && (
        <Confirm
          title={`Delete ${stream.name}`}
          action="Delete"
          name={stream.name}
          onClose={close}
          onConfirm={async () => {
            await request("DELETE", `/streams/${id}`);
            toast(`Stream ${stream.name} was deleted.`);
            go("streams");
          }}
        >
          Deletes {plural(stream.topics.length, "topic")} with {plural(stream.messages_count, "message")}.
        </Confirm>
      )}
    </Page>
  );
}

interface Done {
  onClose: () => void;
  onDone: () => void;
}

function Rename({ stream, onClose, onDone }: { stream: StreamDetails } & Done) {
  const [name, setName] = useState(stream.name);
  const rename = async () => {
    await request("PUT", `/streams/${stream.id}`, { name });
    toast(`The stream is called ${name} now.`);
    onDone();
  };
  return (
    <FormDialog title={`Rename ${stream.name}`} action="Rename" onClose={onClose} onSubmit={rename}>
      <TextField label="Name" value={name} onValue={setName} required maxLength={255} isFirst />
    </FormDialog>
  );
}

const DAY = 86_400e6;
const EXPIRIES = [
  ["0", "default"],
  [String(3600e6), "1 hour"],
  [String(DAY), "1 day"],
  [String(7 * DAY), "7 days"],
  [String(30 * DAY), "30 days"],
] as const;
const SIZES = [
  ["0", "default"],
  ["1 GiB", "1 GiB"],
  ["10 GiB", "10 GiB"],
  ["100 GiB", "100 GiB"],
  ["unlimited", "no limit"],
] as const;

function CreateTopic({ stream, onClose, onDone }: { stream: number } & Done) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const [expires, setExpires] = useState<string>("0");
  const [size, setSize] = useState<string>("0");
  const create = async () => {
    await request("POST", `/streams/${stream}/topics`, {
      name,
      partitions_count: Number(partitions),
      message_expiry: Number(expires),
      max_topic_size: size === "0" ? 0 : size,
    });
    toast(`Topic ${name} was created.`);
    onDone();
  };
  return (
    <FormDialog title="Create a topic" action="Create" onClose={onClose} onSubmit={create}>
      <TextField label="Name" value={name} onValue={setName} required maxLength={255} isFirst />
      <div class="form-row">
        <TextField
          label="Partitions"
          type="number"
          value={partitions}
          onValue={setPartitions}
          min={0}
          max={1000}
          required
        />
        <ChoiceField label="Messages expire" value={expires} options={EXPIRIES} onValue={setExpires} />
        <ChoiceField label="Size limit" value={size} options={SIZES} onValue={setSize} />
      </div>
    </FormDialog>
  );
}
