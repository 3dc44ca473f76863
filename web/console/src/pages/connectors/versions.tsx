import { useState } from "preact/hooks";
import {
  type ConnectorVersion,
  type ConnectorVersions,
  changed,
  connectorPath,
  definitionOf,
  textOf,
} from "../../api/connectors.ts";
import { lineDiff } from "../../line_diff.ts";
import { Confirm, Dialog, FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { CHANGES_ARE_OFF, when } from "./columns.tsx";
import { DefinitionField } from "./list.tsx";

interface VersionsProps {
  versions: ConnectorVersions;
  onDone: () => void;
}

interface Asked {
  action: "show" | "activate";
  version: ConnectorVersion;
}

export function Versions({ versions, onDone }: VersionsProps) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const columns: Column<ConnectorVersion>[] = [
    {
      title: "Version",
      kind: "fit",
      isHead: true,
      cell: ({ number }) => (
        <>
          {number} {number === versions.active && <span class="badge good">active</span>}
        </>
      ),
    },
    { title: "Made", kind: "fit", isNamed: true, cell: (row) => when(row.at) },
    { title: "Author", kind: "fit", isNamed: true, cell: (row) => row.author },
    {
      title: "Comment",
      kind: "fill",
      isNamed: true,
      cell: (row) => (row.definition === null ? <span class="badge warn">deleted</span> : row.comment || "–"),
    },
    {
      title: "Actions",
      isTitleHidden: true,
      kind: "fit",
      cell: (version) => (
        <span class="actions tight">
          <button
            type="button"
            class="button small"
            aria-label={`Show version ${version.number}`}
            onClick={() => setAsked({ action: "show", version })}
          >
            Show
          </button>
          <button
            type="button"
            class="button small"
            aria-label={`Activate version ${version.number}`}
            disabled={version.number === versions.active || !versions.is_changeable}
            onClick={() => setAsked({ action: "activate", version })}
          >
            Activate
          </button>
        </span>
      ),
    },
  ];
  const activate = async ({ number }: ConnectorVersion) => {
    const path = `${connectorPath(versions.key)}/versions/${number}/activate`;
    await changed("POST", path, versions.epoch, {});
    toast(`Version ${number} of ${versions.key} is active.`);
    onDone();
  };
  return (
    <Panel title="Versions of the configuration">
      {!versions.is_changeable && <p class="quiet panel-text">{CHANGES_ARE_OFF}</p>}
      <Table
        label="Versions"
        columns={columns}
        rows={versions.versions}
        id={(row) => row.number}
        isStacked
        empty=""
      />
      {asked?.action === "show" && <Show version={asked.version} versions={versions} onClose={close} />}
      {asked?.action === "activate" && (
        <Confirm
          title={`Activate version ${asked.version.number}`}
          action="Activate"
          onClose={close}
          onConfirm={() => activate(asked.version)}
        >
          <p>
            {asked.version.definition === null
              ? `This deletes ${versions.key}.`
              : `${versions.key} is stopped, and started again with this configuration.`}
          </p>
          <Diff before={activeOf(versions)} after={asked.version} />
        </Confirm>
      )}
    </Panel>
  );
}

export function activeOf(versions: ConnectorVersions): ConnectorVersion | undefined {
  return versions.versions.find(({ number }) => number === versions.active);
}

interface ShowProps {
  version: ConnectorVersion;
  versions: ConnectorVersions;
  onClose: () => void;
}

function Show({ version, versions, onClose }: ShowProps) {
  const before = versions.versions.find(({ number }) => number < version.number);
  return (
    <Dialog title={`Version ${version.number} of ${versions.key}`} isWide onClose={onClose}>
      <div class="dialog-body">
        <p class="quiet">
          {version.author}, {when(version.at)}
          {version.comment && `: ${version.comment}`}
        </p>
        {before && <p>Compared with version {before.number}:</p>}
        <Diff before={before} after={version} />
        <div class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
    </Dialog>
  );
}

const MARKS = { same: " ", removed: "−", added: "+" };
const MEANINGS = { same: "", removed: "removed: ", added: "added: " };

interface DiffProps {
  before: ConnectorVersion | undefined;
  after: ConnectorVersion;
}

/** Lines of the later version, with those that are gone and those that are new. */
function Diff({ before, after }: DiffProps) {
  const now = textOf(after.definition);
  // A first version has nothing to be compared with.
  const lines = lineDiff(before === undefined ? now : textOf(before.definition), now);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which a keyboard must be able to do
    <section class="diff" aria-label="Differences" tabIndex={0}>
      {lines.map(({ kind, text }, index) => (
        <div key={index} class={`diff-line diff-${kind}`}>
          <span aria-hidden="true">{MARKS[kind]} </span>
          <span class="visually-hidden">{MEANINGS[kind]}</span>
          {text}
        </div>
      ))}
    </section>
  );
}

interface ChangeProps extends VersionsProps {
  onClose: () => void;
}

export function Change({ versions: current, onClose, onDone }: ChangeProps) {
  // Another change, made while the dialog is open, must not be overwritten.
  const [versions] = useState(current);
  const [text, setText] = useState(() => textOf(activeOf(versions)?.definition ?? {}));
  const [comment, setComment] = useState("");
  const change = async () => {
    const body = { definition: definitionOf(text), comment };
    const made = await changed("POST", `${connectorPath(versions.key)}/versions`, versions.epoch, body);
    toast(`Version ${made.active} of ${versions.key} is active.`);
    onDone();
  };
  return (
    <FormDialog
      title={`Change ${versions.key}`}
      action="Make a version and activate it"
      isWide
      onClose={onClose}
      onSubmit={change}
    >
      <DefinitionField text={text} onText={setText} />
      <TextField label="Comment" value={comment} onValue={setComment} maxLength={4096} />
    </FormDialog>
  );
}
