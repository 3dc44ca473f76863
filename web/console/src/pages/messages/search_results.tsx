import { useEffect, useRef, useState } from "preact/hooks";
import type { TopicPlace } from "../../api/messages.ts";
import { type Progress, Scan } from "../../api/scan.ts";
import type { Partition } from "../../api/types.ts";
import { count } from "../../format.ts";
import { ErrorNotice } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { MessageTable } from "./table.tsx";

interface SearchResultsProps {
  topic: TopicPlace;
  partitions: readonly Partition[];
  text: string;
  onClose: () => void;
}

export function SearchResults({ topic, partitions, text, onClose }: SearchResultsProps) {
  const [scan] = useState(() => new Scan(topic, partitions, text));
  const [progress, setProgress] = useState<Progress>(scan.progress);
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const abort = useRef<AbortController | null>(null);

  const run = () => {
    const running = new AbortController();
    abort.current = running;
    setRunning(true);
    setError(null);
    scan
      .run((made) => {
        if (!running.signal.aborted) setProgress(made);
      }, running.signal)
      .catch((failure: Error) => {
        if (!running.signal.aborted) setError(failure);
      })
      .finally(() => {
        if (abort.current === running) setRunning(false);
      });
  };
  const stop = () => abort.current?.abort();

  useEffect(() => {
    run();
    return stop;
  }, []);

  const { messages, scanned, total } = progress;
  const isOver = !isRunning && scan.isOver;
  return (
    <>
      {error && <ErrorNotice error={error} />}
      <Panel
        title={`Messages with “${text}”`}
        actions={
          <>
            <progress
              max={Math.max(1, total)}
              value={isOver ? Math.max(1, total) : scanned}
              aria-label="Searched"
            />
            <span class="quiet">
              {count(scanned)} of {count(total)} searched · {count(messages.length)} found ·
            </span>
            {/* Announce state changes only; the changing numbers would be read out without end. */}
            <span class="quiet" role="status">
              {isRunning ? "searching" : isOver ? "complete" : "stopped"}
            </span>
            {isRunning && (
              <button type="button" class="button small" onClick={stop}>
                Stop
              </button>
            )}
            {!isRunning && !isOver && (
              <button type="button" class="button small" onClick={run}>
                Search on
              </button>
            )}
            <button type="button" class="button small" onClick={onClose}>
              Back to the messages
            </button>
          </>
        }
      >
        <MessageTable
          messages={messages}
          isDated
          empty={isOver ? "No message of the topic contains the text." : "Nothing found yet."}
        />
      </Panel>
    </>
  );
}
