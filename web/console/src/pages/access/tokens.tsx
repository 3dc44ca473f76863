import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { AccessToken } from "../../api/types.ts";
import { time } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { Confirm, Dialog, FormDialog } from "../../ui/dialog.tsx";
import { ChoiceField, TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Page } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";

const DAY = 86_400e6;
const EXPIRIES = [
  [String(3600e6), "after 1 hour"],
  [String(DAY), "after 1 day"],
  [String(30 * DAY), "after 30 days"],
  [String(365 * DAY), "after a year"],
  ["0", "never"],
] as const;

export function Tokens() {
  const { data: tokens, error, seenAt, reload } = usePolled<AccessToken[]>("/personal-access-tokens", 5000);
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<{ name: string; text: string } | null>(null);
  const [revoked, setRevoked] = useState<AccessToken | null>(null);
  const columns: Column<AccessToken>[] = [
    { title: "Name", isHead: true, cell: (row) => row.name },
    {
      title: "Expires",
      kind: "fit",
      cell: ({ expiry_at }) => {
        if (!expiry_at) return "never";
        const isOver = expiry_at / 1000 < Date.now();
        return (
          <>
            {time(expiry_at).slice(0, 19)} {isOver && <span class="badge warn">expired</span>}
          </>
        );
      },
    },
    {
      title: "Actions",
      isTitleHidden: true,
      kind: "fit",
      cell: (row) => (
        <button
          type="button"
          class="button small"
          aria-label={`Revoke ${row.name}`}
          onClick={() => setRevoked(row)}
        >
          Revoke
        </button>
      ),
    },
  ];
  return (
    <Page
      title="Access tokens"
      error={error}
      seenAt={seenAt}
      aside={<p class="quiet">Yours: programs log in with them in place of your password.</p>}
      actions={
        <button type="button" class="button primary" onClick={() => setCreating(true)}>
          Create a token
        </button>
      }
    >
      <div class="panel">
        <Table
          label="Access tokens"
          columns={columns}
          rows={tokens}
          id={(row) => row.name}
          empty="You have no access tokens."
        />
      </div>
      {isCreating && (
        <CreateToken
          onClose={() => setCreating(false)}
          onDone={(name, text) => {
            setCreated({ name, text });
            reload();
          }}
        />
      )}
      {created && <Created {...created} onClose={() => setCreated(null)} />}
      {revoked && (
        <Confirm
          title={`Revoke ${revoked.name}`}
          action="Revoke"
          onClose={() => setRevoked(null)}
          onConfirm={async () => {
            await request("DELETE", `/personal-access-tokens/${encodeURIComponent(revoked.name)}`);
            toast(`The token ${revoked.name} was revoked.`);
            reload();
          }}
        >
          It can no longer be used to log in, and sessions that use it end at once.
        </Confirm>
      )}
    </Page>
  );
}

interface CreateTokenProps {
  onClose: () => void;
  onDone: (name: string, text: string) => void;
}

function CreateToken({ onClose, onDone }: CreateTokenProps) {
  const [name, setName] = useState("");
  const [expiry, setExpiry] = useState<string>(String(30 * DAY));
  const create = async () => {
    const body = { name, expiry: Number(expiry) };
    const { token } = await request<{ token: string }>("POST", "/personal-access-tokens", body);
    onDone(name, token);
  };
  return (
    <FormDialog title="Create an access token" action="Create" onClose={onClose} onSubmit={create}>
      <TextField label="Name" value={name} onValue={setName} required minLength={3} maxLength={30} isFirst />
      <ChoiceField label="Expires" value={expiry} options={EXPIRIES} onValue={setExpiry} />
    </FormDialog>
  );
}

function Created({ name, text, onClose }: { name: string; text: string; onClose: () => void }) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  };
  return (
    <Dialog title={`The token ${name}`} onClose={onClose}>
      <div class="dialog-body">
        <p>It is shown this once: the server keeps no copy of it.</p>
        <code class="secret">{text}</code>
        <div class="dialog-foot">
          {/* Browsers offer a clipboard in secure contexts only: HTTPS and localhost. */}
          {navigator.clipboard && (
            <button type="button" class="button" onClick={() => void copy()}>
              Copy
            </button>
          )}
          <button type="button" class="button primary" onClick={onClose}>
            Done
          </button>
        </div>
      </div>
    </Dialog>
  );
}
