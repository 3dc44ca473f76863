/** Errors of the client, and close codes of the server. */

/** Close codes of the server, including those of WebSocket. */
export const CloseCode = {
  /** Requested by a peer. */
  NORMAL: 1000,
  /** The server is shutting down. */
  GOING_AWAY: 1001,
  /** The frame type is not supported by the subprotocol. */
  UNSUPPORTED: 1003,
  /** The connection broke without a close code. */
  ABNORMAL: 1006,
  /** A text is not valid UTF-8. */
  INVALID_TEXT: 1007,
  /** A message exceeds the size limit of the server. */
  TOO_LARGE: 1009,
  /** Internal error of the server. */
  SERVER_FAILED: 1011,
  /** A message could not be parsed far enough for a response. */
  NOT_UNDERSTOOD: 4400,
  /** The connection is not authenticated any more, or never was. */
  NOT_LOGGED_IN: 4401,
  /** The login timeout has expired. */
  LOGIN_TIMEOUT: 4408,
  /** Limit on connections or on the message rate exceeded. */
  TOO_MANY: 4429,
  /** The idle timeout has expired. */
  SILENT: 4440,
} as const;

/** Base class of all errors of this package. */
export class HeadraceError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server has refused a request. */
export class RefusedError extends HeadraceError {
  /** Stable code of the binary protocol. */
  readonly code: number;
  /** Object of the error, if known. */
  readonly field: string | null;

  constructor(code: number, reason: string, field: string | null = null) {
    super(reason);
    this.code = code;
    this.field = field;
  }
}

/** The token is invalid or expired: a new one is needed. */
export class LoginError extends RefusedError {}

/** The connection is permanently closed. */
export class ClosedError extends HeadraceError {
  /** Close code: one of `CloseCode`, or a code sent by an intermediary. */
  readonly closeCode: number;

  constructor(closeCode: number, reason: string) {
    super(reason || `the connection was closed with code ${closeCode}`);
    this.closeCode = closeCode;
  }
}

/** The connection broke during a request, whose outcome is unknown. Subscriptions resume by themselves. */
export class ConnectionLostError extends ClosedError {}

/** The response has timed out. */
export class TimeoutError extends HeadraceError {}
