import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { TopicDetails } from "../../api/types.ts";
import { expiry, sizeLimit } from "../../format.ts";
import { go } from "../../router.ts";
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

function formOf(topic: TopicDetails): Form {
  const expires = topic.message_expiry >= UNLIMITED ? "never" : String(topic.message_expiry);
  const size = sizeText(topic.max_topic_size);
  return {
    name: topic.name,
    expires: EXPIRIES.some(([value]) => value === expires) ? expires : OTHER,
    ...expiryParts(topic.message_expiry >= UNLIMITED ? 0 : topic.message_expiry),
    size: SIZES.some(([value]) => value === size) ? size : OTHER,
    otherSize: size === "unlimited" || size === "0" ? "" : size,
    compression: topic.compression_algorithm,
  };
}

function SettingsForm({ path, stream, topic, onDone }: TopicSettingsProps) {
  const [form, setForm] = useState(() => formOf(topic));
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const change = (part: Partial<Form>) => setForm({ ...form, ...part });
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await request("PUT", path, {
        name: form.name,
        compression_algorithm: form.compression,
        message_expiry:
          form.expires === OTHER
            ? Math.round(Number(form.amount) * Number(form.unit))
            : expiryValue(form.expires),
        max_topic_size: sizeValue(form.size === OTHER ? form.otherSize : form.size),
        replication_factor: topic.replication_factor || null,
      });
      toast(`The settings of ${form.name} were saved.`);
      // The address may have the former name in it.
      if (form.name !== topic.name) go("streams", stream, "topics", topic.id, "settings");
      onDone();
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
          <button type="button" class="button" onClick={() => setForm(formOf(topic))}>
            Reset
          </button>
        </div>
      </form>
    </Panel>
  );
}
