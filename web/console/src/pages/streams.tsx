import { useState } from "preact/hooks";
import { request } from "../api/request.ts";
import type { Stream } from "../api/types.ts";
import { bytes, count, time } from "../format.ts";
import { usePolled } from "../polled.ts";
import { to } from "../router.ts";
import { FormDialog } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { toast } from "../ui/notices.tsx";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

const COLUMNS: Column<Stream>[] = [
  { title: "Name", isHead: true, cell: (row) => <a href={to("streams", row.id)}>{row.name}</a> },
  { title: "Id", kind: "number", cell: (row) => row.id },
  { title: "Topics", kind: "number", cell: (row) => count(row.topics_count) },
  { title: "Messages", kind: "number", cell: (row) => count(row.messages_count) },
  { title: "Size", kind: "number", cell: (row) => bytes(row.size) },
  { title: "Created", kind: "number", cell: (row) => time(row.created_at).slice(0, 19) },
];

export function Streams() {
  const { data: streams, error, reload } = usePolled<Stream[]>("/streams?sizes=bytes", 2000);
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      title="Streams"
      error={error}
      actions={
        <button type="button" class="button primary" onClick={() => setCreating(true)}>
          Create a stream
        </button>
      }
    >
      {!(error && !streams) && (
        <div class="panel">
          <Table
            label="Streams"
            columns={COLUMNS}
            rows={streams}
            id={(row) => row.id}
            empty="There are no streams yet."
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
