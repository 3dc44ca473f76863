/** The quota of a user or a topic, which is set as a whole. */

import { useEffect, useState } from "preact/hooks";
import { getExact, request } from "../api/request.ts";
import { sizeText, sizeValue } from "../topic_limits.ts";
import { TextField } from "./fields.tsx";
import { ErrorNotice, toast } from "./notices.tsx";
import { Panel } from "./page.tsx";

/** Limits by their names in requests; beyond 2^53 they are bigint. */
type Quota = Record<string, number | bigint>;

const RATES = [
  ["sent_bytes_per_second", "Sent per second"],
  ["read_bytes_per_second", "Read per second"],
] as const;
const CONNECTIONS = "connections";
const OF_USER = [...RATES, [CONNECTIONS, "Connections"]] as const;
const OF_TOPIC = [...RATES, ["held_bytes", "Held"]] as const;

function textOf(limit: number | bigint): string {
  if (Number(limit) === 0) return "";
  return Number.isSafeInteger(Number(limit)) ? sizeText(Number(limit)) : String(limit);
}

function formOf(quota: Quota): Record<string, string> {
  return Object.fromEntries(
    Object.entries(quota).map(([name, limit]) => [
      name,
      name === CONNECTIONS && limit ? String(limit) : textOf(limit),
    ]),
  );
}

interface QuotaPanelProps {
  /** Path of the user or the topic. */
  path: string;
  of: "user" | "topic";
}

export function QuotaPanel({ path, of }: QuotaPanelProps) {
  const [form, setForm] = useState<Record<string, string> | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    getExact<Quota>(`${path}/quota`).then((quota) => setForm(formOf(quota)), setError);
  }, [path]);
  const save = async (asked: Record<string, string>) => {
    setBusy(true);
    setError(null);
    try {
      const quota = Object.entries(asked).map(([name, text]) => [name, sizeValue(text.trim() || "0")]);
      await request("PUT", `${path}/quota`, Object.fromEntries(quota));
      setForm(formOf(await getExact<Quota>(`${path}/quota`)));
      toast(`The quota of the ${of} was saved.`);
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  return (
    <Panel title="Quota" isPadded>
      {form && (
        <form
          class="form"
          aria-label={`Quota of the ${of}`}
          onSubmit={(event) => {
            event.preventDefault();
            void save(form);
          }}
        >
          <div class="form-row top">
            {(of === "user" ? OF_USER : OF_TOPIC).map(([name, label]) => (
              <TextField
                key={name}
                label={label}
                type={name === CONNECTIONS ? "number" : "text"}
                {...(name === CONNECTIONS ? { min: 1, step: 1 } : { placeholder: "10 MiB" })}
                value={form[name] ?? ""}
                onValue={(text) => setForm({ ...form, [name]: text })}
              />
            ))}
          </div>
          <p class="quiet">
            {of === "user"
              ? "All connections of the user to a gateway share it. An empty field is no limit."
              : "All users of the topic share it. An empty field is no limit."}
          </p>
          <div class="actions">
            <button type="submit" class="button primary" disabled={isBusy}>
              Save the quota
            </button>
          </div>
        </form>
      )}
      {error && <ErrorNotice error={error} />}
    </Panel>
  );
}
