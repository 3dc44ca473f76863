import type { ClientConnection, User } from "../api/types.ts";
import { count } from "../format.ts";
import { usePolled } from "../polled.ts";
import { to } from "../router.ts";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

export const TRANSPORTS: Record<string, string> = { tcp: "TCP", quic: "QUIC", http: "HTTP", ws: "WebSocket" };

interface UserNameProps {
  id: number | null;
  users: readonly User[] | undefined;
}

/** Name of a client's user, for those who may list the users; the id for others. */
export function UserName({ id, users }: UserNameProps) {
  if (id === null) return <span class="quiet">not logged in</span>;
  const user = users?.find((candidate) => candidate.id === id);
  return user === undefined ? <span>{id}</span> : <a href={to("users", id)}>{user.username}</a>;
}

export function Clients() {
  const { data: clients, error, seenAt } = usePolled<ClientConnection[]>("/clients", 2000);
  const { data: users } = usePolled<User[]>("/users", 30_000);
  const columns: Column<ClientConnection>[] = [
    {
      title: "Client",
      isHead: true,
      kind: "fit",
      sort: (row) => row.client_id,
      cell: (row) => <a href={to("clients", row.client_id)}>{row.client_id}</a>,
    },
    { title: "Address", sort: (row) => row.address, cell: (row) => <span class="mono">{row.address}</span> },
    { title: "Transport", kind: "fit", cell: (row) => TRANSPORTS[row.transport] ?? row.transport },
    {
      title: "User",
      cell: ({ user_id }) => <UserName id={user_id} users={users} />,
    },
    {
      title: "Groups",
      kind: "number",
      sort: (row) => row.consumer_groups_count,
      cell: (row) => count(row.consumer_groups_count),
    },
  ];
  return (
    <Page
      title="Clients"
      needs="Read servers"
      error={error}
      seenAt={seenAt}
      aside={<p class="quiet">Connections of the binary protocol. Callers over HTTP have none.</p>}
    >
      {!(error && !clients) && (
        <div class="panel">
          <Table
            label="Clients"
            columns={columns}
            rows={clients}
            id={(row) => row.client_id}
            empty="No client is connected."
          />
        </div>
      )}
    </Page>
  );
}
