/** Inputs with labels. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: string;
}

interface TextProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  type?: "text" | "password" | "number" | "search" | "datetime-local";
  required?: boolean;
  min?: number;
  max?: number;
  step?: number;
  minLength?: number;
  maxLength?: number;
  placeholder?: string;
  autocomplete?: string;
  /** True for the input that gets the focus when the form appears. */
  isFirst?: boolean;
}

export function TextField({
  label,
  hint,
  onValue,
  isFirst,
  autocomplete = "off",
  type,
  ...limits
}: TextProps) {
  const id = useId();
  // The JSX types distinguish inputs by one literal type.
  const kind = (type ?? "text") as "text";
  const input = useRef<HTMLInputElement>(null);
  // The browser honours the attribute for dialogs when they open, but for pages only when they load.
  useLayoutEffect(() => {
    if (isFirst) input.current?.focus();
  }, [isFirst]);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        {...limits}
        ref={input}
        id={id}
        type={kind}
        autocomplete={autocomplete}
        autofocus={isFirst ?? false}
        spellcheck={false}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      <Hint id={id} text={hint} />
    </div>
  );
}

interface AreaProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  rows?: number;
}

export function AreaField({ label, hint, value, onValue, rows = 6 }: AreaProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        spellcheck={false}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      <Hint id={id} text={hint} />
    </div>
  );
}

interface ChoiceProps<Value extends string> extends FieldProps {
  value: Value;
  options: readonly (readonly [Value, string])[];
  onValue: (value: Value) => void;
}

export function ChoiceField<Value extends string>({
  label,
  hint,
  value,
  options,
  onValue,
}: ChoiceProps<Value>) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onValue(event.currentTarget.value as Value)}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
      <Hint id={id} text={hint} />
    </div>
  );
}

interface CheckProps {
  value: boolean;
  onValue: (value: boolean) => void;
  children: ComponentChildren;
}

export function CheckField({ value, onValue, children }: CheckProps) {
  const id = useId();
  return (
    <div class="check">
      <input
        id={id}
        type="checkbox"
        checked={value}
        onChange={(event) => onValue(event.currentTarget.checked)}
      />
      <label for={id}>{children}</label>
    </div>
  );
}

function Hint({ id, text }: { id: string; text: string | undefined }) {
  if (!text) return null;
  return (
    <span class="hint" id={`${id}-hint`}>
      {text}
    </span>
  );
}
