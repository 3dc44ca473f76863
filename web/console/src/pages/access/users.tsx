import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { User } from "../../api/types.ts";
import { time } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { go, to } from "../../router.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Page } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";

const COLUMNS: Column<User>[] = [
  { title: "Name", isHead: true, cell: (row) => <a href={to("users", row.id)}>{row.username}</a> },
  { title: "Id", kind: "number", cell: (row) => row.id },
  { title: "Status", kind: "fit", cell: (row) => <Status status={row.status} /> },
  { title: "Created", kind: "number", cell: (row) => time(row.created_at).slice(0, 19) },
];

export function Status({ status }: { status: User["status"] }) {
  return <span class={status === "active" ? "badge good" : "badge warn"}>{status}</span>;
}

export function Users() {
  const { data: users, error, seenAt } = usePolled<User[]>("/users", 3000);
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      title="Users"
      needs="Read users"
      error={error}
      seenAt={seenAt}
      actions={
        users && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            Create a user
          </button>
        )
      }
    >
      {!(error && !users) && (
        <div class="panel">
          <Table
            label="Users"
            columns={COLUMNS}
            rows={users}
            id={(row) => row.id}
            empty="There are no users."
          />
        </div>
      )}
      {isCreating && <CreateUser onClose={() => setCreating(false)} />}
    </Page>
  );
}

function CreateUser({ onClose }: { onClose: () => void }) {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const create = async () => {
    const user = await request<User>("POST", "/users", {
      username,
      password,
      status: "active",
      permissions: null,
    });
    toast(`User ${username} was created, without any rights.`);
    go("users", user.id);
  };
  return (
    <FormDialog title="Create a user" action="Create" onClose={onClose} onSubmit={create}>
      <TextField
        label="Name"
        value={username}
        onValue={setUsername}
        required
        minLength={3}
        maxLength={50}
        isFirst
      />
      <TextField
        label="Password"
        type="password"
        value={password}
        onValue={setPassword}
        autocomplete="new-password"
        required
        minLength={3}
        maxLength={100}
      />
    </FormDialog>
  );
}
