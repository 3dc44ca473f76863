/** Dense tables. */

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  title: string;
  /** Hidden from sight where it would only repeat what is seen. */
  isTitleHidden?: boolean;
  kind?: "text" | "number" | "fit";
  /** Names the row. */
  isHead?: boolean;
  cell: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  id: (row: Row) => string | number;
  /** Said when there are no rows. */
  empty: string;
}

export function Table<Row>({ label, columns, rows, id, empty }: TableProps<Row>) {
  if (rows === undefined) return <p class="empty">Loading…</p>;
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    // It scrolls sideways where it is too wide, which a keyboard must be able to do as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable
    <section class="table-frame" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={column.kind}>
                {column.isTitleHidden ? <span class="visually-hidden">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) =>
                column.isHead ? (
                  <th key={column.title} scope="row" class={column.kind}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={column.kind}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
