/** The one section of a page whose actions cannot be undone. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Confirm } from "./dialog.tsx";
import { Panel } from "./page.tsx";

export interface DangerousAction {
  /** Title of the row and of the dialog: the action and its object. */
  title: string;
  /** Text of the button. */
  action: string;
  /** Consequence. */
  text: string;
  /** Text to type before it is done. */
  name: string;
  /** More fields of the dialog. */
  fields?: ComponentChildren;
  onConfirm: () => Promise<void>;
}

export function Danger({ actions }: { actions: readonly DangerousAction[] }) {
  const [asked, setAsked] = useState<string | null>(null);
  const chosen = actions.find(({ title }) => title === asked);
  return (
    <Panel title="Danger">
      <ul class="danger-list">
        {actions.map(({ title, action, text }) => (
          <li key={title}>
            <div>
              <strong>{title}</strong>
              <p class="quiet">{text}</p>
            </div>
            <button type="button" class="button danger" onClick={() => setAsked(title)}>
              {action}
            </button>
          </li>
        ))}
      </ul>
      {chosen && (
        <Confirm
          title={chosen.title}
          action={chosen.action}
          name={chosen.name}
          onClose={() => setAsked(null)}
          onConfirm={chosen.onConfirm}
        >
          <p>{chosen.text}</p>
          {chosen.fields}
        </Confirm>
      )}
    </Panel>
  );
}
