/** Headrace client for browsers. */

export { Client, type ConnectOptions, connect, ListenerError, type State } from "./client.ts";
export {
  CloseCode,
  ClosedError,
  ConnectionLostError,
  HeadraceError,
  LoginError,
  RefusedError,
  TimeoutError,
} from "./errors.ts";
export {
  decodeJsonHeaders,
  type Header,
  type HeaderKind,
  type HeaderValue,
  type JsonHeaders,
  type NewHeader,
} from "./headers.ts";
export type { Identity, Limits } from "./link.ts";
export { jsonOf, type Message, type Place, textOf } from "./message.ts";
export type {
  Filter,
  HeaderCondition,
  Listener,
  NewMessage,
  Notice,
  Partitioning,
  ProduceOptions,
  Start,
  SubscribeOptions,
  TopicRequest,
} from "./requests.ts";
export type { Subscription } from "./subscription.ts";
