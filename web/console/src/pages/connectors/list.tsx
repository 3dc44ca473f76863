import { useState } from "preact/hooks";
import {
  type Connector,
  type ConnectorKind,
  type ConnectorVersions,
  changed,
  connectorPath,
  definitionOf,
  textOf,
} from "../../api/connectors.ts";
import { count, perSecond, plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { go, to } from "../../router.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { AreaField, ChoiceField, TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Page } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { CHANGES_ARE_OFF, lagText, lagValue, StateBadge, when } from "./columns.tsx";

export const NO_CONNECTORS =
  "This server knows no process with connectors. Set http.connectors.url to the address of one.";

const COLUMNS: Column<Connector>[] = [
  {
    title: "Name",
    isHead: true,
    kind: "fit",
    sort: (row) => row.key,
    cell: (row) => <a href={to("connectors", row.key)}>{row.key}</a>,
  },
  { title: "State", kind: "fit", sort: (row) => row.state, cell: (row) => <StateBadge state={row.state} /> },
  { title: "Kind", kind: "fit", sort: (row) => row.kind, cell: (row) => row.kind },
  { title: "Plugin", kind: "fit", sort: (row) => row.plugin, cell: (row) => row.plugin },
  {
    title: "Records",
    kind: "number",
    isNamed: true,
    sort: (row) => row.records_count,
    cell: (row) => count(row.records_count),
  },
  {
    title: "Throughput",
    kind: "number",
    isNamed: true,
    sort: (row) => row.records_per_second,
    cell: (row) => perSecond(row.records_per_second ?? undefined),
  },
  {
    title: "Lag",
    kind: "number",
    isNamed: true,
    sort: (row) => lagValue(row.lag),
    cell: (row) => lagText(row.lag),
  },
  { title: "Last error", kind: "fill", isNamed: true, cell: (row) => <LastError connector={row} /> },
];

/** The last error, with its time; one that the connector has recovered from stands back. */
function LastError({ connector: { last_error, last_error_at, last_commit_at } }: { connector: Connector }) {
  if (last_error === null) return <>–</>;
  const isOver =
    last_error_at !== null &&
    last_commit_at !== null &&
    Date.parse(last_error_at) < Date.parse(last_commit_at);
  return (
    <span class={isOver ? "quiet" : undefined}>
      {when(last_error_at)}: {last_error}
    </span>
  );
}

export function Connectors() {
  const { data: connectors, error, seenAt, reload } = usePolled<Connector[]>("/connectors", 2000);
  // All connectors of a process can be changed, or none; a process without connectors can be changed.
  const known = connectors?.[0];
  const versions = usePolled<ConnectorVersions>(
    known ? `${connectorPath(known.key)}/versions` : null,
    30_000,
  );
  const isChangeable = versions.data?.is_changeable ?? known === undefined;
  const [isCreating, setCreating] = useState(false);
  const failing = connectors?.filter(({ state }) => state === "error" || state === "degraded") ?? [];
  return (
    <Page
      title="Connectors"
      needs="Read servers"
      missing={NO_CONNECTORS}
      error={error}
      seenAt={seenAt}
      aside={
        connectors && (
          <p class="quiet">
            {plural(connectors.length, "connector")}
            {failing.length > 0 && `, ${failing.length} in trouble`}
          </p>
        )
      }
      actions={
        connectors && (
          <button
            type="button"
            class="button primary"
            disabled={!isChangeable}
            title={isChangeable ? undefined : CHANGES_ARE_OFF}
            onClick={() => setCreating(true)}
          >
            Create a connector
          </button>
        )
      }
    >
      {connectors && (
        <div class="panel">
          <Table
            label="Connectors"
            columns={COLUMNS}
            rows={connectors}
            id={(row) => row.key}
            isStacked
            empty="The process runs no connectors."
          />
        </div>
      )}
      {isCreating && <Create onClose={() => setCreating(false)} onDone={reload} />}
    </Page>
  );
}

const EXAMPLE = { plugin: "random", stream: "shop", topic: "orders", settings: {} };

function Create({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [key, setKey] = useState("");
  const [kind, setKind] = useState<ConnectorKind>("source");
  const [text, setText] = useState(textOf(EXAMPLE));
  const [comment, setComment] = useState("");
  const create = async () => {
    const body = { kind, definition: definitionOf(text), comment };
    await changed("POST", `${connectorPath(key)}/versions`, 0, body);
    toast(`Connector ${key} was created.`);
    onDone();
    go("connectors", key);
  };
  return (
    <FormDialog title="Create a connector" action="Create" isWide onClose={onClose} onSubmit={create}>
      <div class="form-row">
        <TextField label="Name" value={key} onValue={setKey} required maxLength={100} isFirst />
        <ChoiceField
          label="Kind"
          value={kind}
          options={[
            ["source", "Source"],
            ["sink", "Sink"],
          ]}
          onValue={setKind}
        />
      </div>
      <DefinitionField text={text} onText={setText} />
      <TextField label="Comment" value={comment} onValue={setComment} maxLength={4096} />
    </FormDialog>
  );
}

export function DefinitionField({ text, onText }: { text: string; onText: (text: string) => void }) {
  return (
    <AreaField
      label="Definition"
      hint="The table of a pipeline file, as JSON. Secrets are references: ${NAME}, or a name with _file."
      value={text}
      rows={14}
      onValue={onText}
    />
  );
}
