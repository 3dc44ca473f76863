import type { Message } from "@headrace/client";
import { useMemo, useState } from "preact/hooks";
import { bytes, clock, time } from "../../format.ts";
import { commonHeaders, headersText, preview, shownValue } from "../../message_text.ts";
import { type Column, Table } from "../../ui/table.tsx";
import { Inspector } from "./inspector.tsx";

/** Header in which producers of the SDK keep the key of a message. */
const KEY_HEADER = "headrace.key";
/** Headers with columns of their own; all others share one. */
const HEADER_COLUMNS_MAX = 4;

interface MessageTableProps {
  messages: readonly Message[];
  /** Show dates in addition to times of day. */
  isDated?: boolean;
  empty: string;
}

export function MessageTable({ messages, isDated = false, empty }: MessageTableProps) {
  const [inspected, setInspected] = useState<Message | null>(null);
  const names = useMemo(() => commonHeaders(messages, HEADER_COLUMNS_MAX), [messages]);
  const hasMore = messages.some(({ headers }) => headers === null || othersOf(headers, names).length > 0);
  const columns: Column<Message>[] = [
    {
      title: "Offset",
      kind: "fit",
      isHead: true,
      cell: (row) => (
        <button
          type="button"
          class="link"
          aria-label={`Inspect message ${row.offset} of partition ${row.partitionId}`}
          onClick={() => setInspected(row)}
        >
          {row.offset}
        </button>
      ),
    },
    { title: "Partition", kind: "fit", isNamed: true, cell: (row) => row.partitionId },
    {
      title: "Time",
      kind: "fit",
      cell: (row) => (isDated ? time(row.timestamp) : clock(row.timestamp)),
    },
    { title: "Size", kind: "number", cell: (row) => bytes(row.payload.length) },
    ...names.map(
      (name): Column<Message> => ({
        title: name === KEY_HEADER ? "Key" : name,
        id: `header ${name}`,
        isNamed: true,
        cell: (row) => <span class="clip header-value quiet">{headerOf(row, name)}</span>,
      }),
    ),
    ...(hasMore
      ? [
          {
            title: names.length > 0 ? "More headers" : "Headers",
            cell: ({ headers }: Message) => (
              <span class="clip header-value quiet">
                {headersText(headers === null ? null : othersOf(headers, names))}
              </span>
            ),
          },
        ]
      : []),
    {
      title: "Payload",
      kind: "fill",
      cell: (row) => <span class="clip mono">{preview(row.payload)}</span>,
    },
  ];
  return (
    <>
      <Table
        label="Messages"
        isStacked
        columns={columns}
        rows={messages}
        id={(row) => `${row.partitionId}.${row.offset}.${row.timestamp}`}
        empty={empty}
      />
      {inspected && <Inspector message={inspected} onClose={() => setInspected(null)} />}
    </>
  );
}

function headerOf({ headers }: Message, name: string): string {
  const found = headers?.find(({ key }) => shownValue(key) === name);
  return found === undefined ? "" : shownValue(found.value);
}

function othersOf<Header extends { key: Parameters<typeof shownValue>[0] }>(
  headers: readonly Header[],
  names: readonly string[],
): Header[] {
  return headers.filter(({ key }) => !names.includes(shownValue(key)));
}
