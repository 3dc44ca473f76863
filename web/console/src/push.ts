/** WebSocket connection for live messages: one for the whole console, opened on first use. */

import { type Client, CloseCode, ClosedError, connect, LoginError } from "@headrace/client";
import { currentToken, THROWN_OUT } from "./api/request.ts";
import { endSession, onSessionChange, session } from "./session.ts";

let client: Promise<Client> | null = null;
let owner: number | null = null;

export function live(): Promise<Client> {
  const who = session();
  if (who === null) return Promise.reject(new Error("You are not logged in."));
  if (client === null || owner !== who.userId) {
    owner = who.userId;
    client = connect({ token: currentToken, onState: ended });
    client.catch(forget);
  }
  return client;
}

function ended(state: string, reason: Error | null): void {
  if (state !== "closed") return;
  forget();
  const isThrownOut =
    reason instanceof LoginError ||
    (reason instanceof ClosedError && reason.closeCode === CloseCode.NOT_LOGGED_IN);
  if (isThrownOut) endSession(THROWN_OUT);
}

function forget(): void {
  client = null;
}

onSessionChange(() => {
  if (session() === null) {
    void client?.then((connected) => connected.close()).catch(() => {});
    forget();
  }
});
