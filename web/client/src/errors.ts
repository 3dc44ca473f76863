/** What can go wrong, and the codes with which the server closes. */

/** Close codes of the server, and those of WebSocket that it uses. */
export const CloseCode = {
  /** Somebody wanted it so. */
  NORMAL: 1000,
  /** The server stops. */
  GOING_AWAY: 1001,
  /** A kind of frame that the subprotocol has not. */
  UNSUPPORTED: 1003,
  /** The connection broke: no code was sent. */
  ABNORMAL: 1006,
  /** A text that is no UTF-8. */
  INVALID_TEXT: 1007,
  /** A message larger than the server takes. */
  TOO_LARGE: 1009,
  /** The server failed. */
  SERVER_FAILED: 1011,
  /** A message that could not even be answered. */
  NOT_UNDERSTOOD: 4400,
  /** Nobody is logged in, or not any more. */
  NOT_LOGGED_IN: 4401,
  /** The login did not come in time. */
  LOGIN_TIMEOUT: 4408,
  /** Too many connections, or messages in a second. */
  TOO_MANY: 4429,
  /** The client was silent for too long. */
  SILENT: 4440,
} as const;

/** The base of all errors of this package. */
export class HeadraceError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server has refused a request. */
export class RefusedError extends HeadraceError {
  /** The stable code of the binary protocol. */
  readonly code: number;
  /** What it is about, if that is known. */
  readonly field: string | null;

  constructor(code: number, reason: string, field: string | null = null) {
    super(reason);
    this.code = code;
    this.field = field;
  }
}

/** The token is not good, or not any more: nothing but another one helps. */
export class LoginError extends RefusedError {}

/** The connection is gone for good. */
export class ClosedError extends HeadraceError {
  /** With which the server closed; one of `CloseCode`, or what something in between has sent. */
  readonly closeCode: number;

  constructor(closeCode: number, reason: string) {
    super(reason || `the connection was closed with code ${closeCode}`);
    this.closeCode = closeCode;
  }
}

/** The connection broke under a request: whether it was executed is not known. Subscriptions go on by themselves. */
export class ConnectionLostError extends ClosedError {}

/** No answer came in time. */
export class TimeoutError extends HeadraceError {}
