/** Hex dump and text view of bytes. */

const SHOWN_MAX = 16 * 1024;

/** Lines of offset, sixteen bytes, and their printable characters. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  const end = Math.min(bytes.length, SHOWN_MAX);
  for (let at = 0; at < end; at += 16) {
    const line = bytes.subarray(at, Math.min(at + 16, end));
    const digits = Array.from(line, (byte) => byte.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    const shown = Array.from(line, (byte) =>
      byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·",
    ).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left}  ${right}  ${shown}`);
  }
  if (bytes.length > end) lines.push(`… ${bytes.length - end} bytes more`);
  return lines.join("\n");
}

/** Decode the text; null if the bytes are not text. */
export function textOrNull(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what has them is no text to read
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}
