import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/request.ts";
import type { ClientConnection, ClientDetails, Group } from "../../api/types.ts";
import { plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { to } from "../../router.ts";

/** Clients that are asked for the groups that they are members of. */
const ASKED_MAX = 100;

export interface GroupMember {
  client: ClientConnection;
  /** Id within the group. */
  member: number | null;
}

interface GroupPlace {
  stream: number;
  topic: number;
  group: Group;
}

/** The connections of this server that are members of a group; null for users who may not list the clients. */
export function useGroupMembers({ stream, topic, group }: GroupPlace): readonly GroupMember[] | null {
  const { data: clients } = usePolled<ClientConnection[]>(group.members_count > 0 ? "/clients" : null, 5000);
  const [members, setMembers] = useState<readonly GroupMember[] | null>(null);
  const candidates = clients
    ?.filter((client) => client.consumer_groups_count > 0)
    .slice(0, ASKED_MAX)
    .map((client) => client.client_id)
    .join(" ");
  useEffect(() => {
    if (candidates === undefined) return;
    const abort = new AbortController();
    void detailsOf(candidates.split(" ").filter(Boolean), abort.signal).then((found) => {
      if (abort.signal.aborted) return;
      const membershipOf = ({ consumer_groups }: ClientDetails) =>
        consumer_groups.find(
          (one) => one.stream_id === stream && one.topic_id === topic && one.group_id === group.id,
        );
      setMembers(
        found.flatMap((client) => {
          const membership = membershipOf(client);
          return membership === undefined ? [] : [{ client, member: membership.member }];
        }),
      );
    });
    return () => abort.abort();
  }, [candidates, stream, topic, group.id, group.members_count]);
  return group.members_count > 0 ? members : null;
}

interface GroupClientsProps {
  group: Group;
  members: readonly GroupMember[];
}

export function GroupClients({ group, members }: GroupClientsProps) {
  const elsewhere = group.members_count - members.length;
  return (
    <p class="panel-text">
      Members:{" "}
      {members.map(({ client }, index) => (
        <span key={client.client_id}>
          {index > 0 && ", "}
          <ClientLink id={client.client_id} /> <span class="quiet">({client.address})</span>
        </span>
      ))}
      {members.length > 0 && elsewhere > 0 && ", "}
      {elsewhere > 0 && (
        <span class="quiet">{plural(elsewhere, "member")} over HTTP or at another gateway</span>
      )}
    </p>
  );
}

export function ClientLink({ id }: { id: number }) {
  return <a href={to("clients", id)}>client&nbsp;{id}</a>;
}

/** A client that has gone since it was listed is left out. */
async function detailsOf(clientIds: readonly string[], signal: AbortSignal): Promise<ClientDetails[]> {
  const found = await Promise.all(
    clientIds.map((id) => get<ClientDetails>(`/clients/${id}`, signal).catch(() => null)),
  );
  return found.filter((client) => client !== null);
}
