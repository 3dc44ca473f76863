import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, request } from "../../api/request.ts";
import type {
  Permissions,
  Rights,
  Stream,
  StreamDetails,
  StreamRights,
  UserDetails,
} from "../../api/types.ts";
import { usePolled } from "../../polled.ts";
import { CONFLICT, merged } from "../../three_way.ts";
import { CheckField, ChoiceField } from "../../ui/fields.tsx";
import { ErrorNotice, toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";

const GLOBAL = [
  "manage_servers",
  "read_servers",
  "manage_users",
  "read_users",
  "manage_streams",
  "read_streams",
  "manage_topics",
  "read_topics",
  "poll_messages",
  "send_messages",
];
const OF_STREAM = [
  "manage_stream",
  "read_stream",
  "manage_topics",
  "read_topics",
  "poll_messages",
  "send_messages",
] as const;
const OF_TOPIC = ["manage_topic", "read_topic", "poll_messages", "send_messages"];

const none = (names: readonly string[]): Rights => Object.fromEntries(names.map((name) => [name, false]));
const rightsOf = ({ permissions }: UserDetails): Permissions =>
  permissions ?? { global: none(GLOBAL), streams: null };
const label = (name: string) => name.replace("_", " ").replace(/^./, (first) => first.toUpperCase());

interface PermissionsFormProps {
  user: UserDetails;
  onDone: () => void;
}

export function PermissionsForm({ user, onDone }: PermissionsFormProps) {
  const [from, setFrom] = useState(() => rightsOf(user));
  const [edited, setEdited] = useState(from);
  const [error, setError] = useState<Error | null>(null);
  const { data: streams } = usePolled<Stream[]>("/streams", 60_000);
  const [added, setAdded] = useState("");
  const ofStreams = edited.streams ?? {};
  const setStreams = (changed: Record<string, StreamRights>) =>
    setEdited({ ...edited, streams: Object.keys(changed).length > 0 ? changed : null });
  const free = streams?.filter(({ id }) => !(id in ofStreams)) ?? [];
  const nameOf = (id: string) => streams?.find((stream) => String(stream.id) === id)?.name ?? `stream ${id}`;

  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const path = `/users/${user.id}`;
      const present = rightsOf(await get<UserDetails>(path));
      const permissions = merged(from, edited, present);
      if (permissions === null) {
        setFrom(present);
        setEdited(present);
        throw new Error(CONFLICT);
      }
      await request("PUT", `${path}/permissions`, { permissions });
      toast(`The rights of ${user.username} were saved.`);
      onDone();
      const saved = rightsOf(await get<UserDetails>(path));
      setFrom(saved);
      // Boxes can be ticked while the request is sent.
      setEdited((later) => merged(edited, later, saved) ?? saved);
    } catch (failure) {
      setError(failure as Error);
    }
  };

  return (
    <Panel title="Rights" isPadded>
      <form class="form" onSubmit={save}>
        <RightsFieldset
          title="Everywhere"
          names={GLOBAL}
          rights={edited.global}
          onRights={(global) => setEdited({ ...edited, global })}
        />
        {Object.entries(ofStreams).map(([id, rights]) => (
          <StreamFieldset
            key={id}
            id={id}
            name={nameOf(id)}
            rights={rights}
            onRights={(changed) => setStreams({ ...ofStreams, [id]: changed })}
            onRemove={() => {
              const { [id]: _, ...rest } = ofStreams;
              setStreams(rest);
            }}
          />
        ))}
        {free.length > 0 && (
          <div class="add-row">
            <ChoiceField
              label="Rights on a stream"
              value={added}
              options={[["", "choose a stream"], ...free.map(({ id, name }) => [String(id), name] as const)]}
              onValue={setAdded}
            />
            <button
              type="button"
              class="button"
              disabled={added === ""}
              onClick={() => {
                setStreams({ ...ofStreams, [added]: { ...none(OF_STREAM), topics: null } as StreamRights });
                setAdded("");
              }}
            >
              Add
            </button>
          </div>
        )}
        {error && <ErrorNotice error={error} />}
        <div>
          <button type="submit" class="button primary">
            Save rights
          </button>
        </div>
      </form>
    </Panel>
  );
}

interface StreamFieldsetProps {
  id: string;
  name: string;
  rights: StreamRights;
  onRights: (rights: StreamRights) => void;
  onRemove: () => void;
}

function StreamFieldset({ id, name, rights, onRights, onRemove }: StreamFieldsetProps) {
  const { data: stream } = usePolled<StreamDetails>(`/streams/${id}`, 60_000);
  const [added, setAdded] = useState("");
  const { topics, ...ofStream } = rights;
  const ofTopics = topics ?? {};
  const setTopics = (changed: Record<string, Rights>) =>
    onRights({ ...rights, topics: Object.keys(changed).length > 0 ? changed : null });
  const free = stream?.topics.filter((topic) => !(topic.id in ofTopics)) ?? [];
  const nameOf = (topic: string) =>
    stream?.topics.find((candidate) => String(candidate.id) === topic)?.name ?? `topic ${topic}`;
  return (
    <RightsFieldset
      title={`Stream ${name}`}
      names={OF_STREAM}
      rights={ofStream}
      onRights={(changed) => onRights({ ...rights, ...changed })}
      onRemove={onRemove}
    >
      {Object.entries(ofTopics).map(([topic, found]) => (
        <RightsFieldset
          key={topic}
          title={`Topic ${nameOf(topic)}`}
          names={OF_TOPIC}
          rights={found}
          onRights={(changed) => setTopics({ ...ofTopics, [topic]: changed })}
          onRemove={() => {
            const { [topic]: _, ...rest } = ofTopics;
            setTopics(rest);
          }}
        />
      ))}
      {free.length > 0 && (
        <div class="add-row">
          <ChoiceField
            label={`Rights on a topic of ${name}`}
            value={added}
            options={[
              ["", "choose a topic"],
              ...free.map((topic) => [String(topic.id), topic.name] as const),
            ]}
            onValue={setAdded}
          />
          <button
            type="button"
            class="button"
            disabled={added === ""}
            onClick={() => {
              setTopics({ ...ofTopics, [added]: none(OF_TOPIC) });
              setAdded("");
            }}
          >
            Add
          </button>
        </div>
      )}
    </RightsFieldset>
  );
}

interface RightsFieldsetProps {
  title: string;
  names: readonly string[];
  rights: Rights;
  onRights: (rights: Rights) => void;
  onRemove?: () => void;
  children?: ComponentChildren;
}

function RightsFieldset({ title, names, rights, onRights, onRemove, children }: RightsFieldsetProps) {
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="rights">
        {names.map((name) => (
          <CheckField
            key={name}
            value={rights[name] ?? false}
            onValue={(value) => onRights({ ...rights, [name]: value })}
          >
            {label(name)}
          </CheckField>
        ))}
      </div>
      {children}
      {onRemove && (
        <div>
          <button type="button" class="button small" onClick={onRemove}>
            Remove {title.toLowerCase().startsWith("topic") ? "topic" : "stream"}
          </button>
        </div>
      )}
    </fieldset>
  );
}
