import { useState } from "preact/hooks";
import { request } from "../../api/request.ts";
import type { UserDetails } from "../../api/types.ts";
import { time } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { go, to } from "../../router.ts";
import { Danger } from "../../ui/danger.tsx";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/notices.tsx";
import { Page } from "../../ui/page.tsx";
import { QuotaPanel } from "../../ui/quota.tsx";
import { PermissionsForm } from "./permissions.tsx";
import { Status } from "./users.tsx";

const ROOT = 0;

export function UserPage({ id }: { id: string }) {
  const { data: user, error, seenAt, reload } = usePolled<UserDetails>(`/users/${id}`, 10_000);
  const [asked, setAsked] = useState<"rename" | "password" | "delete" | null>(null);
  const close = () => setAsked(null);
  const setStatus = async (status: UserDetails["status"]) => {
    try {
      await request("PUT", `/users/${id}`, { status });
      toast(
        status === "active"
          ? "The user may log in."
          : "The user may not log in any more; all logins have ended.",
      );
    } catch (failure) {
      toast((failure as Error).message);
    }
    reload();
  };
  const isRoot = user?.id === ROOT;
  return (
    <Page
      title={user?.username ?? `User ${id}`}
      needs="Read users"
      missing={`There is no user ${id}. It may have been deleted or renamed.`}
      crumbs={[{ label: "Users", href: to("users") }]}
      error={error}
      seenAt={seenAt}
      aside={
        user && (
          <p class="quiet">
            User {user.id} · <Status status={user.status} /> · since {time(user.created_at).slice(0, 19)}
          </p>
        )
      }
      actions={
        user && (
          <>
            <button type="button" class="button" onClick={() => setAsked("rename")}>
              Rename
            </button>
            <button type="button" class="button" onClick={() => setAsked("password")}>
              Change password
            </button>
            {!isRoot && (
              <button
                type="button"
                class="button"
                onClick={() => void setStatus(user.status === "active" ? "inactive" : "active")}
              >
                {user.status === "active" ? "Deactivate" : "Activate"}
              </button>
            )}
          </>
        )
      }
    >
      {user &&
        (isRoot ? (
          <p class="notice">The root user may do everything, and its rights cannot be changed.</p>
        ) : (
          <>
            <PermissionsForm key={user.id} user={user} onDone={reload} />
            <QuotaPanel key={`quota of ${user.id}`} path={`/users/${user.id}`} of="user" />
          </>
        ))}
      {user && asked === "rename" && <Rename user={user} onClose={close} onDone={reload} />}
      {user && asked === "password" && <ChangePassword user={user} onClose={close} />}
      {user && !isRoot && (
        <Danger
          actions={[
            {
              title: `Delete ${user.username}`,
              action: "Delete the user",
              text: "The user's access tokens go with it, and all logins end at once.",
              name: user.username,
              onConfirm: async () => {
                await request("DELETE", `/users/${id}`);
                toast(`User ${user.username} was deleted.`);
                go("users");
              },
            },
          ]}
        />
      )}
    </Page>
  );
}

function Rename({ user, onClose, onDone }: { user: UserDetails; onClose: () => void; onDone: () => void }) {
  const [username, setUsername] = useState(user.username);
  const rename = async () => {
    await request("PUT", `/users/${user.id}`, { username });
    toast(`The user is called ${username} now.`);
    onDone();
  };
  return (
    <FormDialog title={`Rename ${user.username}`} action="Rename" onClose={onClose} onSubmit={rename}>
      <TextField
        label="Name"
        value={username}
        onValue={setUsername}
        required
        minLength={3}
        maxLength={50}
        isFirst
      />
    </FormDialog>
  );
}

function ChangePassword({ user, onClose }: { user: UserDetails; onClose: () => void }) {
  const [present, setPresent] = useState("");
  const [next, setNext] = useState("");
  const change = async () => {
    await request("PUT", `/users/${user.id}/password`, { current_password: present, new_password: next });
    toast(`The password of ${user.username} was changed.`);
  };
  return (
    <FormDialog
      title={`Change the password of ${user.username}`}
      action="Change"
      onClose={onClose}
      onSubmit={change}
    >
      <p>All logins of the user end, except for those with access tokens.</p>
      <TextField
        label="Present password"
        type="password"
        value={present}
        onValue={setPresent}
        autocomplete="current-password"
        required
        isFirst
      />
      <TextField
        label="New password"
        type="password"
        value={next}
        onValue={setNext}
        autocomplete="new-password"
        required
        minLength={3}
        maxLength={100}
      />
    </FormDialog>
  );
}
