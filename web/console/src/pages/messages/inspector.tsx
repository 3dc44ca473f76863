import type { Message } from "@headrace/client";
import { useState } from "preact/hooks";
import { bytes, count, time } from "../../format.ts";
import { hexDump, textOrNull } from "../../hex.ts";
import { jsonOf, pretty } from "../../json.ts";
import { headerOf, KEY_HEADER, originOf, shownValue } from "../../message_text.ts";
import { CopyButton } from "../../ui/copy.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { JsonTree } from "../../ui/json.tsx";
import { Table } from "../../ui/table.tsx";
import { SendBack } from "./send_back.tsx";

type View = "json" | "text" | "hex";

export function Inspector({ message, onClose }: { message: Message; onClose: () => void }) {
  const text = textOrNull(message.payload);
  const json = jsonOf(text);
  const key = headerOf(message, KEY_HEADER);
  const views: [View, string][] = [
    ...(json === null ? [] : ([["json", "JSON"]] as [View, string][])),
    ...(text === null ? [] : ([["text", "Text"]] as [View, string][])),
    ["hex", "Hex"],
  ];
  const [view, setView] = useState<View>(views[0]?.[0] ?? "hex");
  const origin = originOf(message);
  const [isAsked, setAsked] = useState(false);
  if (isAsked && origin !== null) {
    return <SendBack message={message} origin={origin} onClose={() => setAsked(false)} />;
  }
  const shown = () => {
    if (view === "json" && json !== null) return pretty(json);
    return view === "text" && text !== null ? text : hexDump(message.payload);
  };
  return (
    <Dialog title={`Message ${message.offset} of partition ${message.partitionId}`} isWide onClose={onClose}>
      <div class="dialog-body">
        <dl class="facts">
          <dt>Appended</dt>
          <dd>{time(message.timestamp)}</dd>
          <dt>Made</dt>
          <dd>{message.originTimestamp ? time(message.originTimestamp) : "not said"}</dd>
          <dt>Id</dt>
          <dd class="mono">{uuid(message.id)}</dd>
          {key !== null && (
            <>
              <dt>Key</dt>
              <dd class="mono">{key}</dd>
            </>
          )}
          <dt>Payload</dt>
          <dd>
            {bytes(message.payload.length)}
            {message.payload.length >= 1024 && ` (${count(message.payload.length)} bytes)`}
          </dd>
        </dl>
        <Headers message={message} />
        <section>
          <div class="view-head">
            <h3>Payload</h3>
            <fieldset class="segments" aria-label="How the payload is shown">
              {views.map(([name, label]) => (
                <button
                  key={name}
                  type="button"
                  class="button small"
                  aria-pressed={view === name}
                  onClick={() => setView(name)}
                >
                  {label}
                </button>
              ))}
              <CopyButton label="Copy" text={shown} />
            </fieldset>
          </div>
          {view === "json" && json !== null ? (
            <JsonTree json={json} />
          ) : (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which a keyboard must be able to do
            <pre class="payload" tabIndex={0}>
              {shown()}
            </pre>
          )}
        </section>
        {origin?.lost && (
          <p class="notice warn">
            It cannot be sent back: its own headers are not in it, as they were {origin.lost}.
          </p>
        )}
        <div class="dialog-foot">
          {origin !== null && origin.lost === null && (
            <button type="button" class="button" onClick={() => setAsked(true)}>
              Send back to {origin.topic}
            </button>
          )}
          <CopyButton label="Copy the message" text={() => wholeText(message, text)} />
          <button type="button" class="button primary" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function Headers({ message }: { message: Message }) {
  const headers = message.headers?.filter(({ key }) => shownValue(key) !== KEY_HEADER) ?? null;
  if (headers === null) return <p class="notice warn">The headers of this message cannot be read.</p>;
  if (headers.length === 0) return <p class="quiet">It has no headers.</p>;
  return (
    <section>
      <h3>Headers</h3>
      <Table
        label="Headers"
        columns={[
          { title: "Name", isHead: true, cell: ({ key }) => shownValue(key) },
          { title: "Value", cell: ({ value }) => <span class="mono">{shownValue(value)}</span> },
          { title: "Kind", kind: "fit", cell: ({ kind }) => <span class="quiet">{kind}</span> },
        ]}
        rows={headers.map((header, index) => ({ ...header, index }))}
        id={({ index }) => index}
        empty=""
      />
    </section>
  );
}

/** A message with its metadata as JSON; payloads that are not text in base64. */
function wholeText(message: Message, text: string | null): string {
  const payload =
    text === null
      ? { payload_base64: btoa(Array.from(message.payload, (byte) => String.fromCharCode(byte)).join("")) }
      : { payload: text };
  const { headers } = message;
  const whole = {
    partition: message.partitionId,
    offset: message.offset,
    timestamp: message.timestamp,
    id: uuid(message.id),
    headers:
      headers && Object.fromEntries(headers.map(({ key, value }) => [shownValue(key), shownValue(value)])),
    ...payload,
  };
  return JSON.stringify(whole, null, 2);
}

/** Ids are 128-bit numbers whose bytes, least significant first, are those of a UUID. */
function uuid(id: bigint): string {
  const digits = id.toString(16).padStart(32, "0").match(/../g)?.reverse().join("") ?? "";
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    digits.slice(12, 16),
    digits.slice(16, 20),
    digits.slice(20),
  ].join("-");
}
