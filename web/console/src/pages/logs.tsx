import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get } from "../api/request.ts";
import type { LogRecord, Logs as LogsAnswer } from "../api/types.ts";
import { time } from "../format.ts";
import { ChoiceField, TextField } from "../ui/fields.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { PauseButton } from "../ui/pause.tsx";
import { type Column, Table } from "../ui/table.tsx";

type Level = LogRecord["level"];

const KEPT_MAX = 1000;
const WAIT_MS = 20_000;
/** Pause between polls: a server that logs each request always has new lines. */
const PAUSE_MS = 700;
const AGAIN_MS = 3000;
const BADGES: Record<Level, string> = {
  debug: "badge",
  info: "badge",
  warning: "badge warn",
  error: "badge bad",
};

const COLUMNS: Column<LogRecord>[] = [
  { title: "Time", kind: "fit", cell: (row) => time(row.timestamp) },
  { title: "Level", kind: "fit", cell: (row) => <span class={BADGES[row.level]}>{row.level}</span> },
  {
    title: "Message",
    kind: "fill",
    cell: (row) => (
      <>
        {row.message} <span class="quiet">{fieldsOf(row)}</span>
        {row.exception && <pre>{row.exception}</pre>}
      </>
    ),
  },
  { title: "Logger", kind: "fit", cell: (row) => <span class="quiet">{row.logger}</span> },
];

export function Logs() {
  const [level, setLevel] = useState<Level>("info");
  const [text, setText] = useState("");
  const [isPaused, setPaused] = useState(false);
  const { records, missed, error } = useLog(level, isPaused);
  const wanted = text.toLowerCase();
  const shown = records?.filter((record) => searchable(record).includes(wanted));
  return (
    <Page title="Log" error={error} needs="Read servers">
      {!(error && !records) && (
        <Panel
          title="Records"
          actions={
            <>
              <span class="quiet" role="status">
                {isPaused ? "paused" : "live"}
              </span>
              <PauseButton isPaused={isPaused} onPaused={setPaused} />
            </>
          }
        >
          <div class="filters">
            <ChoiceField
              label="From level"
              value={level}
              options={[
                ["debug", "debug"],
                ["info", "info"],
                ["warning", "warning"],
                ["error", "error"],
              ]}
              onValue={setLevel}
            />
            <TextField label="Contains" type="search" value={text} onValue={setText} />
          </div>
          {missed > 0 && <p class="notice warn">{missed} records had gone before they could be shown.</p>}
          <div class="log">
            <Table
              label="Records"
              isStacked
              columns={COLUMNS}
              rows={shown}
              id={(row) => row.sequence}
              empty="There are no such records."
            />
          </div>
        </Panel>
      )}
    </Page>
  );
}

interface Log {
  /** Newest first. */
  records: LogRecord[] | undefined;
  missed: number;
  error: Error | undefined;
}

function useLog(level: Level, isPaused: boolean): Log {
  const [records, setRecords] = useState<LogRecord[] | undefined>();
  const [missed, setMissed] = useState(0);
  const [error, setError] = useState<Error | undefined>();
  const after = useRef(0);

  // Another level requires a new list.
  useEffect(() => {
    after.current = 0;
    setRecords(undefined);
    setMissed(0);
  }, [level]);

  useEffect(() => {
    if (isPaused) return;
    const abort = new AbortController();
    const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const follow = async () => {
      while (!abort.signal.aborted) {
        const wait = after.current > 0 ? `&wait_ms=${WAIT_MS}` : "";
        const path = `/logs?level=${level}&count=${KEPT_MAX}&after=${after.current}${wait}`;
        try {
          const answer = await get<LogsAnswer>(path, abort.signal);
          after.current = answer.last;
          const newest = answer.records.reverse();
          setRecords((before) => [...newest, ...(before ?? [])].slice(0, KEPT_MAX));
          setMissed((before) => before + answer.missed);
          setError(undefined);
        } catch (failure) {
          if (abort.signal.aborted) return;
          setError(failure as Error);
          // Without the permission, polling again would fail as well.
          if (failure instanceof ApiError && failure.status === 403) return;
          await pause(AGAIN_MS);
        }
        await pause(PAUSE_MS);
      }
    };
    void follow();
    return () => abort.abort();
  }, [level, isPaused]);

  return { records, missed, error };
}

function fieldsOf({ fields }: LogRecord): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

function searchable(record: LogRecord): string {
  return `${record.message} ${record.logger} ${fieldsOf(record)} ${record.exception ?? ""}`.toLowerCase();
}
