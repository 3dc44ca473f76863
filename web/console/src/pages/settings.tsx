import { useState } from "preact/hooks";
import type { Setting } from "../api/types.ts";
import { usePolled } from "../polled.ts";
import { CheckField, TextField } from "../ui/fields.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

const COLUMNS: Column<Setting>[] = [
  {
    title: "Setting",
    isHead: true,
    cell: (row) => (
      <>
        <span class="mono">{row.name}</span>
        <div class="quiet setting-text">{withCode(row.description)}</div>
      </>
    ),
  },
  { title: "Value", cell: (row) => <Value setting={row} /> },
  {
    title: "From",
    cell: (row) =>
      row.is_default ? (
        <span class="quiet">default</span>
      ) : (
        <strong class="setting-origin">{row.origin}</strong>
      ),
  },
];

export function Settings() {
  const { data: settings, error, seenAt } = usePolled<Setting[]>("/settings", 60_000);
  const [text, setText] = useState("");
  const [onlyChanged, setOnlyChanged] = useState(false);
  const wanted = text.toLowerCase();
  const shown = settings?.filter(
    (setting) =>
      !(onlyChanged && setting.is_default) &&
      `${setting.name} ${setting.description} ${setting.value}`.toLowerCase().includes(wanted),
  );
  return (
    <Page
      title="Settings"
      needs="Read servers"
      error={error}
      seenAt={seenAt}
      aside={
        <p class="quiet">
          Those in force. They are changed in the file or the environment, and by a restart.
        </p>
      }
    >
      {!(error && !settings) && (
        <Panel title="In force">
          <div class="inline-form">
            <TextField label="Contains" type="search" value={text} onValue={setText} />
            <CheckField value={onlyChanged} onValue={setOnlyChanged}>
              Only what is no default
            </CheckField>
          </div>
          <div class="settings">
            <Table
              label="Settings"
              columns={COLUMNS}
              rows={shown}
              id={(row) => row.name}
              empty="There is no such setting."
            />
          </div>
        </Panel>
      )}
    </Page>
  );
}

/** Text between backticks is code. */
function withCode(text: string) {
  return text
    .split("`")
    .map((part, index) => (index % 2 === 1 ? <code key={`${index}${part}`}>{part}</code> : part));
}

function Value({ setting }: { setting: Setting }) {
  if (!setting.is_set) return <span class="quiet">not set</span>;
  if (setting.is_secret) return <span class="quiet">set, and not shown</span>;
  return <span class="mono setting-value">{setting.value}</span>;
}
