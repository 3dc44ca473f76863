/** Differences of two texts by lines. */

export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Lines of both texts in their order; of a changed part, the removed lines come first. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  const width = now.length + 1;
  // Length of the longest common part of the rests that begin at each pair of lines.
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      common[row * width + column] =
        old[row] === now[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const found: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    const [left, right] = [old[row], now[column]];
    if (left !== undefined && left === right) {
      found.push({ kind: "same", text: left });
      row += 1;
      column += 1;
    } else if (left !== undefined && (right === undefined || at(row + 1, column) >= at(row, column + 1))) {
      found.push({ kind: "removed", text: left });
      row += 1;
    } else if (right !== undefined) {
      found.push({ kind: "added", text: right });
      column += 1;
    }
  }
  return found;
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}
