import { useState } from "preact/hooks";
import { request } from "../api/request.ts";
import type { Stream } from "../api/types.ts";
import { count, time } from "../format.ts";
import { usePolled } from "../polled.ts";
import { useRates } from "../rates.ts";
import { to } from "../router.ts";
import { FormDialog } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { toast } from "../ui/notices.tsx";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { volumeColumns } from "./volume_columns.tsx";

function columnsWith(rates: ReadonlyMap<number, number>): Column<Stream>[] {
  return [
    {
      title: "Name",
      isHead: true,
      sort: (row) => row.name,
      cell: (row) => <a href={to("streams", row.id)}>{row.name}</a>,
    },
    { title: "Id", kind: "number", sort: (row) => row.id, cell: (row) => row.id },
    {
      title: "Topics",
      kind: "number",
      sort: (row) => row.topics_count,
      cell: (row) => count(row.topics_count),
    },
    ...volumeColumns<Stream>(rates),
    {
      title: "Created",
      kind: "number",
      sort: (row) => row.created_at,
      cell: (row) => time(row.created_at).slice(0, 19),
    },
  ];
}

export function Streams() {
  const { data: streams, error, seenAt, reload } = usePolled<Stream[]>("/streams?sizes=bytes", 2000);
  const rates = useRates(streams);
  const [text, setText] = useState("");
  const shown = streams?.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      title="Streams"
      needs="Read streams"
      error={error}
      seenAt={seenAt}
      actions={
        <button type="button" class="button primary" onClick={() => setCreating(true)}>
          Create a stream
        </button>
      }
    >
      {!(error && !streams) && (
        <div class="panel">
          {streams?.length !== 0 && (
            <div class="inline-form">
              <TextField label="Contains" type="search" value={text} onValue={setText} />
            </div>
          )}
          <Table
            label="Streams"
            columns={columnsWith(rates)}
            rows={shown}
            id={(row) => row.id}
            empty={streams?.length === 0 ? "There are no streams yet." : "There is no such stream."}
          />
        </div>
      )}
      {isCreating && <CreateStream onClose={() => setCreating(false)} onDone={reload} />}
    </Page>
  );
}

function CreateStream({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const create = async () => {
    await request("POST", "/streams", { name });
    toast(`Stream ${name} was created.`);
    onDone();
  };
  return (
    <FormDialog title="Create a stream" action="Create" onClose={onClose} onSubmit={create}>
      <TextField label="Name" value={name} onValue={setName} required maxLength={255} isFirst />
    </FormDialog>
  );
}
