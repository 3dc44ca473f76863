import type { HeaderValue, Message } from "@headrace/client";
import { useState } from "preact/hooks";
import { bytes, count, time } from "../../format.ts";
import { hexDump, jsonOrNull, textOrNull } from "../../hex.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Table } from "../../ui/table.tsx";

type View = "json" | "text" | "hex";

export function Inspector({ message, onClose }: { message: Message; onClose: () => void }) {
  const text = textOrNull(message.payload);
  const json = jsonOrNull(text);
  const views: [View, string][] = [
    ...(json === null ? [] : ([["json", "JSON"]] as [View, string][])),
    ...(text === null ? [] : ([["text", "Text"]] as [View, string][])),
    ["hex", "Hex"],
  ];
  const [view, setView] = useState<View>(views[0]?.[0] ?? "hex");
  const shown = view === "json" ? json : view === "text" ? text : hexDump(message.payload);
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
            </fieldset>
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which a keyboard must be able to do */}
          <pre class="payload" tabIndex={0}>
            {shown}
          </pre>
        </section>
        <div class="dialog-foot">
          <button type="button" class="button primary" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function Headers({ message }: { message: Message }) {
  const { headers } = message;
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

export function shownValue(value: HeaderValue): string {
  if (!(value instanceof Uint8Array)) return String(value);
  return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
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
