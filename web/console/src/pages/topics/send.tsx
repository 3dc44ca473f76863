import type { NewHeader, NewMessage, Partitioning } from "@headrace/client";
import { useState } from "preact/hooks";
import type { TopicDetails } from "../../api/types.ts";
import { plural } from "../../format.ts";
import { KEY_HEADER } from "../../message_text.ts";
import { live } from "../../push.ts";
import { AreaField, CheckField, ChoiceField, TextField } from "../../ui/fields.tsx";
import { ErrorNotice, toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";

type To = "balanced" | "partition";

export function Send({ topic, stream }: { topic: TopicDetails; stream: number }) {
  const [to, setTo] = useState<To>("balanced");
  const [partition, setPartition] = useState(String(topic.partitions[0]?.id ?? 0));
  const [key, setKey] = useState("");
  const [headers, setHeaders] = useState("");
  const [payload, setPayload] = useState("");
  const [isByLine, setByLine] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const messages = messagesOf(payload, headers, key, isByLine);
      const partitioning: Partitioning =
        to === "partition" ? { partition: Number(partition) } : key === "" ? to : { key };
      const client = await live();
      await client.produce({ stream, topic: topic.id, partitioning, messages });
      toast(`${plural(messages.length, "message")} sent.`);
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };

  return (
    <Panel title="Send a message" isPadded>
      <form class="form" onSubmit={submit}>
        <div class="form-row">
          <ChoiceField
            label="Partition"
            value={to}
            options={[
              ["balanced", key === "" ? "in turn" : "by the key"],
              ["partition", "a certain one"],
            ]}
            onValue={setTo}
          />
          {to === "partition" && (
            <ChoiceField
              label="Which"
              value={partition}
              options={topic.partitions.map(({ id }) => [String(id), String(id)] as const)}
              onValue={setPartition}
            />
          )}
          <TextField label="Key" value={key} onValue={setKey} maxLength={255} placeholder="none" />
        </div>
        <AreaField
          label="Headers"
          rows={2}
          value={headers}
          onValue={setHeaders}
          hint="One on each line: name=value. All of them are texts."
        />
        <AreaField
          label="Payload"
          rows={8}
          value={payload}
          onValue={setPayload}
          hint={jsonDefect(isByLine ? linesOf(payload) : [payload]) ?? "Text, perhaps JSON."}
        />
        <CheckField value={isByLine} onValue={setByLine}>
          Each line is a message
        </CheckField>
        {error && <ErrorNotice error={error} />}
        <div>
          <button type="submit" class="button primary" disabled={isBusy || topic.partitions.length === 0}>
            Send
          </button>
        </div>
      </form>
    </Panel>
  );
}

function linesOf(payload: string): string[] {
  return payload.split("\n").filter((line) => line !== "");
}

/** Defect of a text that looks like JSON; null if there is none. It can be sent nevertheless. */
function jsonDefect(payloads: readonly string[]): string | null {
  for (const [index, text] of payloads.entries()) {
    if (!/^\s*[[{]/.test(text)) continue;
    try {
      JSON.parse(text);
    } catch (defect) {
      const place = payloads.length > 1 ? `Message ${index + 1} is` : "This is";
      return `${place} not JSON: ${(defect as Error).message}`;
    }
  }
  return null;
}

function messagesOf(payload: string, headers: string, key: string, isByLine: boolean): NewMessage[] {
  const payloads = isByLine ? linesOf(payload) : [payload];
  if (payloads.length === 0 || payloads[0] === "") throw new Error("There is nothing to send.");
  const found: Record<string, NewHeader> = {};
  for (const line of headers.split("\n").filter((text) => text.trim() !== "")) {
    const [name, ...value] = line.split("=");
    if (!name?.trim() || value.length === 0) throw new Error(`“${line}” is no header: name=value.`);
    found[name.trim()] = value.join("=").trim();
  }
  // Consumers of the SDK read the key of a message there.
  if (key !== "") found[KEY_HEADER] = new TextEncoder().encode(key);
  return payloads.map((text) => ({ payload: text, headers: found }));
}
