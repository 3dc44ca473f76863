import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { Group } from "../../api/types.ts";
import { plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { Confirm, FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { ErrorNotice, toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { GroupClients, useGroupMembers } from "./group_clients.tsx";
import { LagTable } from "./lag.tsx";

interface ConsumersProps {
  /** Path of the topic. */
  path: string;
  topic: number;
  stream: number;
}

export function Consumers({ path, topic, stream }: ConsumersProps) {
  const { data: groups, error, reload } = usePolled<Group[]>(`${path}/consumer-groups`, 2000);
  const [isCreating, setCreating] = useState(false);
  return (
    <>
      {error && <ErrorNotice error={error} />}
      <div class="section-head">
        <h2>Consumer groups</h2>
        <button type="button" class="button small" onClick={() => setCreating(true)}>
          Create a group
        </button>
      </div>
      {groups?.length === 0 && <p class="panel empty">There are no consumer groups of this topic.</p>}
      {groups?.map((group) => (
        <GroupPanel key={group.id} place={{ path, topic, stream }} group={group} onDone={reload} />
      ))}
      <div class="section-head">
        <h2>Consumers by themselves</h2>
      </div>
      <SingleConsumer path={path} />
      {isCreating && <CreateGroup path={path} onClose={() => setCreating(false)} onDone={reload} />}
    </>
  );
}

interface GroupPanelProps {
  place: ConsumersProps;
  group: Group;
  onDone: () => void;
}

function GroupPanel({ place, group, onDone }: GroupPanelProps) {
  const { path } = place;
  const [isDeleting, setDeleting] = useState(false);
  const members = useGroupMembers({ ...place, group });
  return (
    <Panel
      title={group.name}
      actions={
        <>
          <span class={group.members_count > 0 ? "badge good" : "badge"}>
            {plural(group.members_count, "member")}
          </span>
          <button
            type="button"
            class="button small"
            aria-label={`Delete group ${group.name}`}
            onClick={() => setDeleting(true)}
          >
            Delete
          </button>
        </>
      }
    >
      {members && <GroupClients group={group} members={members} />}
      <LagTable
        path={path}
        reader={{ isGroup: true, id: group.id }}
        label={`group ${group.name}`}
        members={members ?? []}
        refusal={group.members_count > 0 ? "offsets can be reset when it has no members" : null}
      />
      {isDeleting && (
        <Confirm
          title={`Delete group ${group.name}`}
          action="Delete"
          name={group.name}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await request("DELETE", `${path}/consumer-groups/${group.id}`);
            toast(`Group ${group.name} was deleted.`);
            onDone();
          }}
        >
          Its members and its stored offsets go with it.
        </Confirm>
      )}
    </Panel>
  );
}

function SingleConsumer({ path }: { path: string }) {
  const [typed, setTyped] = useState("");
  const [consumer, setConsumer] = useState<string | null>(null);
  return (
    <Panel title={consumer === null ? "Find a consumer" : `Consumer ${consumer}`}>
      <p class="quiet panel-text">
        What a client stores its offsets under: the server keeps no list of them.
      </p>
      <form
        class="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          setConsumer(typed.trim());
        }}
      >
        <TextField label="Id or name" value={typed} onValue={setTyped} required maxLength={255} />
        <button type="submit" class="button">
          Show
        </button>
      </form>
      {consumer !== null && (
        <LagTable
          key={consumer}
          path={path}
          reader={{ isGroup: false, id: /^\d+$/.test(consumer) ? Number(consumer) : consumer }}
          label={`consumer ${consumer}`}
        />
      )}
    </Panel>
  );
}

function CreateGroup({ path, onClose, onDone }: { path: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const create = async () => {
    await request("POST", `${path}/consumer-groups`, { name });
    toast(`Group ${name} was created.`);
    onDone();
  };
  return (
    <FormDialog title="Create a consumer group" action="Create" onClose={onClose} onSubmit={create}>
      <TextField label="Name" value={name} onValue={setName} required maxLength={255} isFirst />
    </FormDialog>
  );
}
