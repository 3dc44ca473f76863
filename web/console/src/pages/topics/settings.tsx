import { useState } from "preact/hooks";
import { getExact, request } from "../../api/request.ts";
import type { TopicDetails } from "../../api/types.ts";
import { expiry, sizeLimit } from "../../format.ts";
import { go } from "../../router.ts";
import { CONFLICT, merged } from "../../three_way.ts";
import {
  EXPIRIES,
  EXPIRY_UNITS,
  expiryParts,
  expiryValue,
  OTHER,
  SIZES,
  sizeText,
  sizeValue,
  UNLIMITED,
} from "../../topic_limits.ts";
import { ChoiceField, TextField } from "../../ui/fields.tsx";
import { ErrorNotice, toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { QuotaPanel } from "../../ui/quota.tsx";
import { TopicDanger } from "./danger.tsx";

interface TopicSettingsProps {
  path: string;
  stream: number;
  topic: TopicDetails;
  onDone: () => void;
}

export function TopicSettings(props: TopicSettingsProps) {
  return (
    <>
      <SettingsForm {...props} />
      <QuotaPanel path={`/streams/${props.stream}/topics/${props.topic.id}`} of="topic" />
      <TopicDanger {...props} />
    </>
  );
}

interface Form {
  name: string;
  expires: string;
  amount: string;
  unit: string;
  size: string;
  otherSize: string;
  compression: "none" | "gzip";
}

/** Settings as the server has them; limits beyond 2^53 are bigint, or rounded. */
type Settings = Pick<TopicDetails, "name" | "compression_algorithm" | "replication_factor"> & {
  message_expiry: number | bigint;
  max_topic_size: number | bigint;
};

/** The part of the settings that the form changes, as requests have them. */
type Changes = Pick<Settings, "name" | "compression_algorithm"> & {
  message_expiry: number | bigint | string;
  max_topic_size: number | bigint | string;
};

function formOf(topic: Settings): Form {
  const micros = Number(topic.message_expiry);
  const expires = micros >= UNLIMITED ? "never" : String(micros);
  const size = sizeText(Number(topic.max_topic_size));
  return {
    name: topic.name,
    expires: EXPIRIES.some(([value]) => value === expires) ? expires : OTHER,
    ...expiryParts(micros >= UNLIMITED ? 0 : micros),
    size: SIZES.some(([value]) => value === size) ? size : OTHER,
    otherSize: size === "unlimited" || size === "0" ? "" : size,
    compression: topic.compression_algorithm,
  };
}

const expiryOf = ({ expires, amount, unit }: Form) =>
  expires === OTHER ? Math.round(Number(amount) * Number(unit)) : expiryValue(expires);
const sizeOf = ({ size, otherSize }: Form) => sizeValue(size === OTHER ? otherSize : size);

const changesOf = ({ name, compression_algorithm, message_expiry, max_topic_size }: Settings): Changes => ({
  name,
  compression_algorithm,
  message_expiry,
  max_topic_size,
});

/** Settings that the form asks for. A limit that was not touched stays the number that it was. */
function editedOf(form: Form, from: Settings): Changes {
  const began = formOf(from);
  return {
    name: form.name,
    compression_algorithm: form.compression,
    message_expiry: expiryOf(form) === expiryOf(began) ? from.message_expiry : expiryOf(form),
    max_topic_size: sizeOf(form) === sizeOf(began) ? from.max_topic_size : sizeOf(form),
  };
}

function SettingsForm({ stream, topic, onDone }: TopicSettingsProps) {
  const [from, setFrom] = useState<Settings>(topic);
  const [form, setForm] = useState(() => formOf(from));
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const change = (part: Partial<Form>) => setForm({ ...form, ...part });
  const begin = (settings: Settings) => {
    setFrom(settings);
    setForm(formOf(settings));
  };
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      // By its id: someone else may have given the name in the address to another topic.
      const path = `/streams/${stream}/topics/${topic.id}`;
      const present = await getExact<Settings>(path);
      const changes = merged(changesOf(from), editedOf(form, from), changesOf(present));
      if (changes === null) {
        begin(present);
        throw new Error(CONFLICT);
      }
      await request("PUT", path, { ...changes, replication_factor: present.replication_factor || null });
      toast(`The settings of ${changes.name} were saved.`);
      // The address may have the former name in it.
      if (changes.name !== topic.name) go("streams", stream, "topics", topic.id, "settings");
      onDone();
      const saved = await getExact<Settings>(path);
      setFrom(saved);
      // Fields can be changed while the request is sent.
      setForm((later) => merged(form, later, formOf(saved)) ?? formOf(saved));
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  return (
    <Panel title="Settings" isPadded>
      <form
        class="form"
        aria-label="Settings of the topic"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div class="form-row top">
          <TextField
            label="Name"
            value={form.name}
            onValue={(name) => change({ name })}
            required
            maxLength={255}
          />
          <ChoiceField
            label="Compression"
            value={form.compression}
            options={[
              ["none", "none"],
              ["gzip", "gzip"],
            ]}
            onValue={(compression) => change({ compression })}
            hint="A note for clients: the server stores what they send."
          />
        </div>
        <div class="form-row top">
          <ChoiceField
            label="Messages expire"
            value={form.expires}
            options={[...EXPIRIES, [OTHER, "after another time"]]}
            onValue={(expires) => change({ expires })}
            hint={`Now: ${expiry(topic.message_expiry)}`}
          />
          {form.expires === OTHER && (
            <>
              <TextField
                label="After"
                type="number"
                min={1}
                step={1}
                value={form.amount}
                onValue={(amount) => change({ amount })}
                required
              />
              <ChoiceField
                label="Unit"
                value={form.unit}
                options={EXPIRY_UNITS}
                onValue={(unit) => change({ unit })}
              />
            </>
          )}
          <ChoiceField
            label="Size limit"
            value={form.size}
            options={[...SIZES, [OTHER, "another size"]]}
            onValue={(size) => change({ size })}
            hint={`Now: ${sizeLimit(topic.max_topic_size)}`}
          />
          {form.size === OTHER && (
            <TextField
              label="At most"
              value={form.otherSize}
              placeholder="25 GiB"
              onValue={(otherSize) => change({ otherSize })}
              required
            />
          )}
        </div>
        <p class="quiet">
          Messages that exceed a new limit are deleted soon, segment by segment. The durability of a topic is
          decided when it is created, by the setting <code>system.topic.durability</code>, and stays.
        </p>
        {error && <ErrorNotice error={error} />}
        <div class="actions">
          <button type="submit" class="button primary" disabled={isBusy}>
            Save
          </button>
          <button type="button" class="button" onClick={() => begin(topic)}>
            Reset
          </button>
        </div>
      </form>
    </Panel>
  );
}
