import { useState } from "preact/hooks";
import { request } from "../api/request.ts";
import type { ClientDetails, GroupLag, User } from "../api/types.ts";
import { plural } from "../format.ts";
import { usePolled } from "../polled.ts";
import { go, to } from "../router.ts";
import { Confirm } from "../ui/dialog.tsx";
import { toast } from "../ui/notices.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { TRANSPORTS, UserName } from "./clients.tsx";

type Membership = ClientDetails["consumer_groups"][number];

export function ClientPage({ id }: { id: string }) {
  const { data: client, error, seenAt } = usePolled<ClientDetails>(`/clients/${id}`, 2000);
  const { data: users } = usePolled<User[]>("/users", 30_000);
  const { data: groups } = usePolled<GroupLag[]>("/consumer-groups", 10_000);
  const [isAsked, setAsked] = useState(false);
  const named = ({ stream_id, topic_id, group_id }: Membership) =>
    groups?.find(
      (group) => group.stream_id === stream_id && group.topic_id === topic_id && group.id === group_id,
    );
  const columns: Column<Membership>[] = [
    {
      title: "Group",
      isHead: true,
      cell: (row) => (
        <a href={to("streams", row.stream_id, "topics", row.topic_id, "consumers")}>
          {named(row)?.name ?? `Group ${row.group_id}`}
        </a>
      ),
    },
    {
      title: "Topic",
      cell: (row) => {
        const found = named(row);
        return found
          ? `${found.stream_name}/${found.topic_name}`
          : `topic ${row.topic_id} of stream ${row.stream_id}`;
      },
    },
  ];
  return (
    <Page
      title={`Client ${id}`}
      needs="Read servers"
      missing={`No client has the id ${id}: it has disconnected, or is connected to another gateway.`}
      crumbs={[{ label: "Clients", href: to("clients") }]}
      error={error}
      seenAt={seenAt}
      actions={
        client && (
          <button type="button" class="button" onClick={() => setAsked(true)}>
            Disconnect
          </button>
        )
      }
    >
      {client && (
        <>
          <Panel title="Connection" isPadded>
            <dl class="facts">
              <dt>Address</dt>
              <dd class="mono">{client.address}</dd>
              <dt>Transport</dt>
              <dd>{TRANSPORTS[client.transport] ?? client.transport}</dd>
              <dt>User</dt>
              <dd>
                <UserName id={client.user_id} users={users} />
              </dd>
              <dt>Member of</dt>
              <dd>{plural(client.consumer_groups_count, "consumer group")}</dd>
            </dl>
          </Panel>
          <Panel title="Consumer groups">
            <Table
              label="Consumer groups"
              columns={columns}
              rows={client.consumer_groups}
              id={(row) => `${row.stream_id}/${row.topic_id}/${row.group_id}`}
              empty="It is a member of no group."
            />
          </Panel>
        </>
      )}
      {isAsked && (
        <Confirm
          title={`Disconnect client ${id}`}
          action="Disconnect"
          onClose={() => setAsked(false)}
          onConfirm={async () => {
            await request("DELETE", `/clients/${id}`);
            toast(`Client ${id} was disconnected.`);
            go("clients");
          }}
        >
          Closes its connection, even during a request. Most clients connect again.
        </Confirm>
      )}
    </Page>
  );
}
