/** JSON as a tree whose objects and arrays fold. */

import { plural } from "../format.ts";
import type { Field, Json } from "../json.ts";

export function JsonTree({ json }: { json: Json }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which a keyboard must be able to do
    <section class="payload json" aria-label="JSON" tabIndex={0}>
      <Node field={{ name: null, value: json }} isLast />
    </section>
  );
}

function Node({ field: { name, value }, isLast }: { field: Field; isLast: boolean }) {
  const label = name !== null && (
    <>
      <span class="json-name">{name}</span>
      {": "}
    </>
  );
  const comma = isLast ? "" : ",";
  if (!("fields" in value)) {
    return (
      <div class="json-leaf">
        {label}
        <span class={`json-${value.kind}`}>{value.text}</span>
        {comma}
      </div>
    );
  }
  const [open, close] = value.kind === "object" ? ["{", "}"] : ["[", "]"];
  if (value.fields.length === 0) {
    return (
      <div class="json-leaf">
        {label}
        {open}
        {close}
        {comma}
      </div>
    );
  }
  return (
    <details open>
      <summary>
        {label}
        {open}
        <span class="json-folded">
          {" "}
          <span class="quiet">
            {plural(value.fields.length, value.kind === "object" ? "field" : "element")}
          </span>{" "}
          {close}
          {comma}
        </span>
      </summary>
      <div class="json-fields">
        {value.fields.map((field, index) => (
          <Node key={index} field={field} isLast={index === value.fields.length - 1} />
        ))}
      </div>
      <div class="json-close">
        {close}
        {comma}
      </div>
    </details>
  );
}
