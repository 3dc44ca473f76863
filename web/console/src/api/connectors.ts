/** Types of connectors, and calls that change them. */

import { type Method, request } from "./request.ts";

export interface ConnectorLag {
  behind: number;
  unit: string;
}

export interface StateChange {
  at: string;
  state: string;
  reason: string | null;
}

export interface ConnectorError {
  first_at: string;
  at: string;
  code: string | null;
  message: string;
  count: number;
}

/** State of a transform; what it has depends on its plugin. */
export interface TransformReport {
  error?: string | null;
  [name: string]: unknown;
}

export type ConnectorKind = "source" | "sink";

export interface Connector {
  key: string;
  kind: ConnectorKind;
  plugin: string;
  state: string;
  records_count: number;
  batches_count: number;
  records_per_second: number | null;
  lag: ConnectorLag | null;
  consecutive_failures: number;
  last_error: string | null;
  last_error_at: string | null;
  last_commit_at: string | null;
  destinations_count: number | null;
  topics: { stream: string; topic: string }[];
  group: string | null;
  dead_letters_count: number | null;
  /** Process of a group that runs it; null if there is none. */
  runs_in: string | null;
  transforms: Record<string, TransformReport>;
  errors: ConnectorError[];
  history: StateChange[];
}

export interface Destination {
  stream: string;
  topic: string;
  circuit: string;
  messages_count: number;
  partitions_count: number | null;
  last_error: string | null;
}

export interface ConnectorHistory {
  interval_seconds: number;
  samples: {
    at: string;
    state: string;
    records_count: number;
    records_per_second: number | null;
    lag: ConnectorLag | null;
  }[];
}

export type Definition = Record<string, unknown>;

export interface ConnectorVersion {
  number: number;
  at: string;
  author: string;
  comment: string;
  origin: string;
  kind: ConnectorKind;
  definition: Definition | null;
}

export interface ConnectorVersions {
  key: string;
  epoch: number;
  active: number | null;
  is_deleted: boolean;
  is_changeable: boolean;
  versions: ConnectorVersion[];
}

export function connectorPath(key: string): string {
  return `/connectors/${encodeURIComponent(key)}`;
}

export type Action = "start" | "stop" | "restart";

export function act(key: string, action: Action): Promise<Connector> {
  return request<Connector>("POST", `${connectorPath(key)}/${action}`);
}

/** Version for the state that the user has seen: another change in between is refused. */
export function changed(
  method: Method,
  path: string,
  epoch: number,
  body?: unknown,
): Promise<ConnectorVersions> {
  return request<ConnectorVersions>(method, `${path}?epoch=${epoch}`, body);
}

/** Definition that a user has typed. */
export function definitionOf(text: string): Definition {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`The definition is not JSON: ${(error as Error).message}`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new Error('The definition is an object, such as {"plugin": "random"}.');
  }
  return found as Definition;
}

export function textOf(definition: Definition | null): string {
  return definition === null ? "" : JSON.stringify(definition, null, 2);
}
