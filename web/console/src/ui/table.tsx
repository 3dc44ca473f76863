/** Dense tables that sort. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** Null is sorted to the end, in either direction. */
type SortValue = number | string | null;

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
  /** Repeat the title with each value where rows are stacked. */
  isNamed?: boolean;
  /** Value to sort by; without it the column does not sort. */
  sort?: (row: Row) => SortValue;
  cell: (row: Row) => ComponentChildren;
}

export interface Sorting {
  column: string;
  isDescending: boolean;
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  id: (row: Row) => string | number;
  /** Text for an empty table. */
  empty: string;
  /** Sorting until the user chooses another; without it, rows keep their order. */
  sorted?: Sorting;
  /** Show rows on a phone as blocks in place of columns that scroll sideways. */
  isStacked?: boolean;
}

export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, id, empty, sorted, isStacked = false } = props;
  const [chosen, setChosen] = useState<Sorting | undefined>(sorted);
  if (rows === undefined) return <p class="empty">Loading…</p>;
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    // Wide tables scroll sideways, which must be possible by keyboard as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable
    <section class={isStacked ? "table-frame stacked" : "table-frame"} aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={idOf(column)} column={column} sorting={chosen} onSort={setChosen} />
            ))}
          </tr>
        </thead>
        <tbody>
          {inOrder(rows, columns, chosen).map((row) => (
            <tr key={id(row)}>
              {columns.map((column) =>
                column.isHead ? (
                  <th key={idOf(column)} scope="row" class={column.kind}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td
                    key={idOf(column)}
                    class={column.kind}
                    data-title={column.isNamed ? column.title : undefined}
                  >
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

interface HeadProps<Row> {
  column: Column<Row>;
  sorting: Sorting | undefined;
  onSort: (sorting: Sorting) => void;
}

function Head<Row>({ column, sorting, onSort }: HeadProps<Row>) {
  const { title, kind } = column;
  if (column.sort === undefined) {
    return (
      <th scope="col" class={kind}>
        {column.isTitleHidden ? <span class="visually-hidden">{title}</span> : title}
      </th>
    );
  }
  const isSorted = sorting?.column === idOf(column);
  const order = isSorted ? (sorting.isDescending ? "descending" : "ascending") : "none";
  // Of numbers, the large ones are usually looked for.
  const isDescending = isSorted ? !sorting.isDescending : kind === "number";
  const mark = (
    <span key="mark" class="sort-mark" aria-hidden="true">
      {order === "none" ? "" : order === "descending" ? "↓" : "↑"}
    </span>
  );
  return (
    <th scope="col" class={kind} aria-sort={order}>
      <button
        type="button"
        class="sort"
        title={`Sort by ${title}`}
        onClick={() => onSort({ column: idOf(column), isDescending })}
      >
        {kind === "number" ? [mark, title] : [title, mark]}
      </button>
    </th>
  );
}

function idOf<Row>(column: Column<Row>): string {
  return column.id ?? column.title;
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** Rows that compare as equal keep their order. */
function inOrder<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sorting: Sorting | undefined,
): readonly Row[] {
  const value = columns.find((column) => idOf(column) === sorting?.column)?.sort;
  if (value === undefined || sorting === undefined) return rows;
  const sign = sorting.isDescending ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [left, right] = [value(one), value(other)];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    if (typeof left === "number" && typeof right === "number") return sign * (left - right);
    return sign * collator.compare(String(left), String(right));
  });
}
