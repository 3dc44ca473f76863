/** Dense tables. */

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  title: string;
  /** Distinguishes columns with the same title. */
  id?: string;
  /** Visually hidden, if it would only repeat visible text. */
  isTitleHidden?: boolean;
  /** `fit` is as narrow as its content; `fill` takes the space that is left. */
  kind?: "text" | "number" | "fit" | "fill";
  /** The column is the header of its row. */
  isHead?: boolean;
  cell: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  id: (row: Row) => string | number;
  /** Text for an empty table. */
  empty: string;
}

export function Table<Row>({ label, columns, rows, id, empty }: TableProps<Row>) {
  if (rows === undefined) return <p class="empty">Loading…</p>;
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    // Wide tables scroll sideways, which must be possible by keyboard as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable
    <section class="table-frame" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id ?? column.title} scope="col" class={column.kind}>
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
                  <th key={column.id ?? column.title} scope="row" class={column.kind}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.id ?? column.title} class={column.kind}>
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
