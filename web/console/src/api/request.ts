/** Authenticated requests to the HTTP API. */

import { exactParsed, jsonText } from "../json.ts";
import { beginSession, endSession, type Session, session } from "../session.ts";

/** A refusal, with the stable code of the binary protocol if there is one. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: number | null;
  readonly field: string | null;

  constructor(status: number, reason: string, code: number | null = null, field: string | null = null) {
    super(reason);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

interface ErrorBody {
  id: number;
  code: string;
  reason: string;
  field: string | null;
}

export interface Identity {
  user_id: number;
  access_token: { token: string; expiry: number };
}

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export const THROWN_OUT =
  "You were logged out: the login has expired or was revoked, or the account or its password has changed.";

/** Send a request; returns the parsed response, or `undefined` for an empty one. */
export async function request<Answer>(
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  parsed: (text: string) => unknown = JSON.parse,
): Promise<Answer> {
  await renewing;
  const who = session();
  let response = await sent(method, path, body, who?.token, signal);
  if (response.status === 401 && who !== null) {
    // The request may have used the old token while the token was being exchanged.
    await renewing;
    const now = session();
    if (now !== null && now.token !== who.token) response = await sent(method, path, body, now.token, signal);
    if (response.status === 401) endSession(THROWN_OUT);
  }
  return await answered<Answer>(response, parsed);
}

/** Return the token of the session, after any token exchange in progress. */
export async function currentToken(): Promise<string> {
  await renewing;
  const who = session();
  if (who === null) throw new Error("You are not logged in.");
  return who.token;
}

export function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return request<Answer>("GET", path, undefined, signal);
}

/** The same with integers beyond 2^53 as bigint. */
export function getExact<Answer>(path: string): Promise<Answer> {
  return request<Answer>("GET", path, undefined, undefined, exactParsed);
}

async function sent(
  method: Method,
  path: string,
  body: unknown,
  token: string | undefined,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (token !== undefined) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method, headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) init.body = jsonText(body);
  if (signal !== undefined) init.signal = signal;
  try {
    return await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
}

async function answered<Answer>(
  response: Response,
  parsed: (text: string) => unknown = JSON.parse,
): Promise<Answer> {
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : parsed(text)) as Answer;
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
    const refusal = JSON.parse(text) as ErrorBody;
    throw new ApiError(response.status, refusal.reason, refusal.id, refusal.field);
  }
  throw new ApiError(response.status, text || `The server answered with status ${response.status}.`);
}

export async function logIn(username: string, password: string): Promise<void> {
  const identity = await answered<Identity>(
    await sent("POST", "/users/login", { username, password }, undefined, undefined),
  );
  begin(identity, username);
}

export async function logInWithToken(token: string): Promise<void> {
  const identity = await answered<Identity>(
    await sent("POST", "/personal-access-tokens/login", { token }, undefined, undefined),
  );
  const response = await sent(
    "GET",
    `/users/${identity.user_id}`,
    undefined,
    identity.access_token.token,
    undefined,
  );
  begin(identity, (await answered<{ username: string }>(response)).username);
}

export async function logOut(): Promise<void> {
  try {
    await request<void>("DELETE", "/users/logout");
  } finally {
    endSession(null);
  }
}

let renewing: Promise<void> | null = null;

/** Exchange the token for one that expires later. */
export function renew(of: Session): Promise<void> {
  renewing = exchanged(of)
    .catch(() => {})
    .finally(() => {
      renewing = null;
    });
  return renewing;
}

async function exchanged(of: Session): Promise<void> {
  const response = await sent("POST", "/users/refresh-token", { token: of.token }, undefined, undefined);
  if (session()?.token !== of.token) return;
  if (response.status === 401) endSession(THROWN_OUT);
  begin(await answered<Identity>(response), of.username);
}

function begin(identity: Identity, username: string): void {
  beginSession({
    token: identity.access_token.token,
    expiresAt: identity.access_token.expiry,
    userId: identity.user_id,
    username,
  });
}
