/** Columns that lists of streams and of topics share: how much is in them, and how much arrives. */

import { bytes, count, perSecond } from "../format.ts";
import type { Column } from "../ui/table.tsx";

interface Volume {
  id: number;
  messages_count: number;
  size: number;
}

/** Rates are messages per second by id, as far as they are known yet. */
export function volumeColumns<Row extends Volume>(rates: ReadonlyMap<number, number>): Column<Row>[] {
  return [
    {
      title: "Messages",
      kind: "number",
      sort: (row) => row.messages_count,
      cell: (row) => count(row.messages_count),
    },
    {
      title: "Rate",
      kind: "number",
      sort: (row) => rates.get(row.id) ?? null,
      cell: (row) => perSecond(rates.get(row.id)),
    },
    { title: "Size", kind: "number", sort: (row) => row.size, cell: (row) => bytes(row.size) },
  ];
}
