import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/request.ts";
import type { ClientConnection, ClientDetails, Group } from "../../api/types.ts";
import { plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { to } from "../../router.ts";

/** Clients that are asked for the groups that they are members of. */
const ASKED_MAX = 100;

/** The connections of this server that are members of a group, for users who may list the clients. */
export function GroupClients({ stream, topic, group }: { stream: number; topic: number; group: Group }) {
  const { data: clients } = usePolled<ClientConnection[]>("/clients", 5000);
  const [members, setMembers] = useState<readonly ClientDetails[] | null>(null);
  const candidates = clients
    ?.filter((client) => client.consumer_groups_count > 0)
    .slice(0, ASKED_MAX)
    .map((client) => client.client_id)
    .join(" ");
  useEffect(() => {
    if (candidates === undefined) return;
    const abort = new AbortController();
    void detailsOf(candidates.split(" ").filter(Boolean), abort.signal).then((found) => {
      const isMember = ({ consumer_groups }: ClientDetails) =>
        consumer_groups.some(
          (one) => one.stream_id === stream && one.topic_id === topic && one.group_id === group.id,
        );
      if (!abort.signal.aborted) setMembers(found.filter(isMember));
    });
    return () => abort.abort();
  }, [candidates, stream, topic, group.id, group.members_count]);
  if (members === null) return null;
  const elsewhere = group.members_count - members.length;
  return (
    <p class="panel-text">
      Members:{" "}
      {members.map((client, index) => (
        <span key={client.client_id}>
          {index > 0 && ", "}
          <a href={to("clients", client.client_id)}>client {client.client_id}</a>{" "}
          <span class="quiet">({client.address})</span>
        </span>
      ))}
      {members.length > 0 && elsewhere > 0 && ", "}
      {elsewhere > 0 && (
        <span class="quiet">{plural(elsewhere, "member")} over HTTP or at another gateway</span>
      )}
    </p>
  );
}

/** A client that has gone since it was listed is left out. */
async function detailsOf(clientIds: readonly string[], signal: AbortSignal): Promise<ClientDetails[]> {
  const found = await Promise.all(
    clientIds.map((id) => get<ClientDetails>(`/clients/${id}`, signal).catch(() => null)),
  );
  return found.filter((client) => client !== null);
}
