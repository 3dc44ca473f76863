/** Button that copies a text. */

import { useRef, useState } from "preact/hooks";

const SHOWN_MS = 2000;

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const button = useRef<HTMLButtonElement>(null);
  const [outcome, setOutcome] = useState<string | null>(null);
  const copy = async () => {
    setOutcome((await copied(text(), button.current)) ? "Copied" : "Select and copy it by hand");
    setTimeout(() => setOutcome(null), SHOWN_MS);
  };
  return (
    <button ref={button} type="button" class="button small" onClick={() => void copy()}>
      <span aria-live="polite">{outcome ?? label}</span>
    </button>
  );
}

/** Browsers offer their clipboard only to pages with HTTPS, and to those of the same machine. */
async function copied(text: string, beside: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    // Outside of an open dialog it could not be selected.
    beside?.after(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    beside?.focus();
    return isDone;
  }
}
