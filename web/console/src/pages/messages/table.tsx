import type { Message } from "@headrace/client";
import { useMemo, useState } from "preact/hooks";
import { bytes, clock, time } from "../../format.ts";
import {
  commonHeaders,
  headerOf,
  headersText,
  KEY_HEADER,
  preview,
  REASON_HEADER,
  shownValue,
} from "../../message_text.ts";
import { type Column, Table } from "../../ui/table.tsx";
import { Inspector } from "./inspector.tsx";

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
  const special = [
    { name: REASON_HEADER, title: "Why", size: "reason" },
    { name: KEY_HEADER, title: "Key", size: "header-value quiet" },
  ].filter(({ name }) => messages.some((message) => headerOf(message, name) !== null));
  const apart = [...names, ...special.map(({ name }) => name)];
  const hasMore = messages.some(({ headers }) => headers === null || othersOf(headers, apart).length > 0);
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
      title: "Payload",
      kind: "fill",
      cell: (row) => <span class="clip mono">{preview(row.payload)}</span>,
    },
    ...special.map(
      ({ name, title, size }): Column<Message> => ({
        title,
        isNamed: true,
        cell: (row) => <span class={`clip ${size}`}>{headerOf(row, name)}</span>,
      }),
    ),
    {
      title: "Time",
      kind: "fit",
      cell: (row) => (isDated ? time(row.timestamp) : clock(row.timestamp)),
    },
    { title: "Size", kind: "number", cell: (row) => bytes(row.payload.length) },
    ...names.map(
      (name): Column<Message> => ({
        title: name,
        id: `header ${name}`,
        isNamed: true,
        cell: (row) => <span class="clip header-value quiet">{headerOf(row, name)}</span>,
      }),
    ),
    ...(hasMore
      ? [
          {
            title: apart.length > 0 ? "More headers" : "Headers",
            cell: ({ headers }: Message) => (
              <span class="clip header-value quiet">
                {headersText(headers === null ? null : othersOf(headers, apart))}
              </span>
            ),
          },
        ]
      : []),
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

function othersOf<Header extends { key: Parameters<typeof shownValue>[0] }>(
  headers: readonly Header[],
  names: readonly string[],
): Header[] {
  return headers.filter(({ key }) => !names.includes(shownValue(key)));
}
