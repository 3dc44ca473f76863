import { useState } from "preact/hooks";
import { request } from "../api/request.ts";
import type { StreamDetails, Topic } from "../api/types.ts";
import { bytes, count, expiry, plural, sizeLimit } from "../format.ts";
import { usePolled } from "../polled.ts";
import { useRates } from "../rates.ts";
import { go, to } from "../router.ts";
import { EXPIRIES, expiryValue, SIZES, sizeValue } from "../topic_limits.ts";
import { Danger } from "../ui/danger.tsx";
import { FormDialog } from "../ui/dialog.tsx";
import { ChoiceField, TextField } from "../ui/fields.tsx";
import { toast } from "../ui/notices.tsx";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { volumeColumns } from "./volume_columns.tsx";

type Asked = "create" | "rename";

export function StreamPage({ id }: { id: string }) {
  const {
    data: stream,
    error,
    seenAt,
    reload,
  } = usePolled<StreamDetails>(`/streams/${id}?sizes=bytes`, 2000);
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const rates = useRates(stream?.topics);
  const [text, setText] = useState("");
  const shown = stream?.topics.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  const columns: Column<Topic>[] = [
    {
      title: "Name",
      isHead: true,
      sort: (row) => row.name,
      cell: (row) => <a href={to("streams", id, "topics", row.id)}>{row.name}</a>,
    },
    { title: "Id", kind: "number", sort: (row) => row.id, cell: (row) => row.id },
    {
      title: "Partitions",
      kind: "number",
      sort: (row) => row.partitions_count,
      cell: (row) => count(row.partitions_count),
    },
    ...volumeColumns<Topic>(rates),
    {
      title: "Expiry",
      kind: "number",
      sort: (row) => row.message_expiry,
      cell: (row) => expiry(row.message_expiry),
    },
    {
      title: "Size limit",
      kind: "number",
      sort: (row) => row.max_topic_size,
      cell: (row) => sizeLimit(row.max_topic_size),
    },
  ];
  return (
    <Page
      title={stream?.name ?? `Stream ${id}`}
      needs="Read streams"
      missing={`There is no stream ${id}. It may have been deleted or renamed.`}
      crumbs={[{ label: "Streams", href: to("streams") }]}
      error={error}
      seenAt={seenAt}
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
            <button type="button" class="button primary" onClick={() => setAsked("create")}>
              Create a topic
            </button>
          </>
        )
      }
    >
      {stream && (
        <div class="panel">
          {stream.topics.length > 0 && (
            <div class="inline-form">
              <TextField label="Contains" type="search" value={text} onValue={setText} />
            </div>
          )}
          <Table
            label="Topics"
            columns={columns}
            rows={shown}
            id={(row) => row.id}
            empty={
              stream.topics.length === 0
                ? "There are no topics in this stream yet."
                : "There is no such topic in this stream."
            }
          />
        </div>
      )}
      {stream && asked === "create" && <CreateTopic stream={stream.id} onClose={close} onDone={reload} />}
      {stream && asked === "rename" && <Rename stream={stream} onClose={close} onDone={reload} />}
      {stream && (
        <Danger
          actions={[
            {
              title: `Purge ${stream.name}`,
              action: "Purge",
              text: `Drops ${plural(stream.messages_count, "message")} and every stored offset of ${plural(stream.topics.length, "topic")}. The topics stay.`,
              name: stream.name,
              onConfirm: async () => {
                await request("DELETE", `/streams/${id}/purge`);
                toast(`Stream ${stream.name} was purged.`);
                reload();
              },
            },
            {
              title: `Delete ${stream.name}`,
              action: "Delete the stream",
              text: `Deletes ${plural(stream.topics.length, "topic")} with ${plural(stream.messages_count, "message")}.`,
              name: stream.name,
              onConfirm: async () => {
                await request("DELETE", `/streams/${id}`);
                toast(`Stream ${stream.name} was deleted.`);
                go("streams");
              },
            },
          ]}
        />
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
    // The address may have the former name in it.
    go("streams", stream.id);
    onDone();
  };
  return (
    <FormDialog title={`Rename ${stream.name}`} action="Rename" onClose={onClose} onSubmit={rename}>
      <TextField label="Name" value={name} onValue={setName} required maxLength={255} isFirst />
    </FormDialog>
  );
}

function CreateTopic({ stream, onClose, onDone }: { stream: number } & Done) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const [expires, setExpires] = useState<string>("0");
  const [size, setSize] = useState<string>("0");
  const create = async () => {
    await request("POST", `/streams/${stream}/topics`, {
      name,
      partitions_count: Number(partitions),
      message_expiry: expiryValue(expires),
      max_topic_size: sizeValue(size),
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
