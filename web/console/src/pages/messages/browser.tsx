import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { TopicPlace } from "../../api/messages.ts";
import {
  atOffset,
  atTime,
  beginnings,
  between,
  ends,
  type MessagePage,
  pageAfter,
  pageBefore,
} from "../../api/paging.ts";
import { get } from "../../api/request.ts";
import type { Partition, TopicDetails } from "../../api/types.ts";
import { count, plural } from "../../format.ts";
import { contains } from "../../message_text.ts";
import { to } from "../../router.ts";
import { TextField } from "../../ui/fields.tsx";
import { ErrorNotice } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { PlaceFields, type ReadingPlace } from "./place_fields.tsx";
import { SearchResults } from "./search_results.tsx";
import { MessageTable } from "./table.tsx";

const PAGE_SIZE = 50;

type Wish = ReadingPlace<"newest">;

const BEGINNING: Wish = { partition: "", begin: "newest", value: "" };

export function Messages({ path, topic, stream }: { path: string; topic: TopicDetails; stream: number }) {
  const [wish, setWish] = useState(BEGINNING);
  const [text, setText] = useState("");
  const [sought, setSought] = useState<string | null>(null);
  const pages = usePages({ path, streamId: stream, topicId: topic.id }, wish.partition);
  const { page } = pages;
  const known = chosen(topic.partitions, pages.partition);
  const older = page === null ? 0 : between(beginnings(known), page.before);
  const newer = page === null ? 0 : between(page.after, ends(known));
  const inOrder = page === null ? [] : pages.isNewestFirst ? page.messages.toReversed() : page.messages;
  const shown = text === "" ? inOrder : inOrder.filter((message) => contains(message, text));
  const change = (part: Partial<Wish>) => setWish({ ...wish, ...part });
  return (
    <>
      <div class="panel toolbar">
        <form
          aria-label="Where to read"
          onSubmit={(event) => {
            event.preventDefault();
            setSought(null);
            pages.begin(wish);
          }}
        >
          <PlaceFields
            partitions={topic.partitions}
            own={["newest", "with the newest"]}
            place={wish}
            onChange={change}
          />
          <button type="submit" class="button">
            Show
          </button>
        </form>
        <form
          class="search"
          aria-label="Search"
          onSubmit={(event) => {
            event.preventDefault();
            setSought(text);
          }}
        >
          <TextField
            label="Contains"
            type="search"
            value={text}
            onValue={(value) => {
              setText(value);
              setSought(null);
            }}
            maxLength={255}
            placeholder="in payload or headers"
            required
          />
          <button type="submit" class="button">
            Search the topic
          </button>
          <a class="button" href={to("streams", stream, "topics", topic.id, "live")}>
            Watch live
          </a>
        </form>
      </div>
      {pages.error && <ErrorNotice error={pages.error} />}
      {sought !== null ? (
        <SearchResults
          key={`${sought} ${wish.partition}`}
          topic={{ path, streamId: stream, topicId: topic.id }}
          partitions={chosen(topic.partitions, wish.partition)}
          text={sought}
          onClose={() => setSought(null)}
        />
      ) : (
        <Panel
          title="Messages"
          actions={
            <>
              <span class="quiet" role="status">
                {page === null ? "reading" : summary(shown.length, inOrder.length, older, newer)}
              </span>
              <button
                type="button"
                class="button small"
                onClick={() => pages.begin({ ...wish, begin: "newest" })}
              >
                Newest
              </button>
              <button type="button" class="button small" disabled={newer === 0} onClick={pages.newer}>
                Newer
              </button>
              <button type="button" class="button small" disabled={older === 0} onClick={pages.older}>
                Older
              </button>
            </>
          }
        >
          {page === null ? (
            !pages.error && <p class="empty">Loading…</p>
          ) : (
            <MessageTable
              messages={shown}
              isDated
              empty={
                inOrder.length > 0
                  ? "None of the messages of this page contains the text."
                  : older + newer > 0
                    ? "There are no messages from here on."
                    : "There are no messages yet."
              }
            />
          )}
        </Panel>
      )}
    </>
  );
}

function summary(shown: number, loaded: number, older: number, newer: number): string {
  const here =
    shown === loaded ? plural(loaded, "message") : `${count(shown)} of ${plural(loaded, "message")}`;
  return `${here} · ${count(older)} older · ${count(newer)} newer`;
}

/** One partition, or all that can be read. */
function chosen(partitions: readonly Partition[], partition: string): readonly Partition[] {
  return partition === ""
    ? partitions.filter(({ state }) => state === "serving")
    : partitions.filter(({ id }) => String(id) === partition);
}

interface Pages {
  page: MessagePage | null;
  /** Partition of the page; empty for all. */
  partition: string;
  isNewestFirst: boolean;
  error: Error | null;
  begin: (wish: Wish) => void;
  older: () => void;
  newer: () => void;
}

type Load = (partitions: readonly Partition[], signal: AbortSignal) => Promise<MessagePage>;

/** One page at a time, with fresh limits of the partitions for each. */
function usePages(topic: TopicPlace, partition: string): Pages {
  const [loaded, setLoaded] = useState({
    page: null as MessagePage | null,
    partition,
    isNewestFirst: true,
  });
  const [error, setError] = useState<Error | null>(null);
  const running = useRef<AbortController | null>(null);
  const { path, streamId, topicId } = topic;

  const load = useCallback(
    async (of: string, isNewestFirst: boolean, read: Load) => {
      running.current?.abort();
      const abort = new AbortController();
      running.current = abort;
      try {
        const { partitions } = await get<TopicDetails>(`${path}?sizes=bytes`, abort.signal);
        const page = await read(chosen(partitions, of), abort.signal);
        if (abort.signal.aborted) return;
        setLoaded({ page, partition: of, isNewestFirst });
        setError(null);
      } catch (failure) {
        if (!abort.signal.aborted) setError(failure as Error);
      }
    },
    [path],
  );

  const place = { path, streamId, topicId };
  const begin = (wish: Wish) =>
    void load(wish.partition, wish.begin === "newest", async (partitions, signal) => {
      if (wish.begin === "newest") {
        return await pageBefore(place, partitions, ends(partitions), PAGE_SIZE, signal);
      }
      const position =
        wish.begin === "first"
          ? beginnings(partitions)
          : wish.begin === "offset"
            ? atOffset(partitions, Number(wish.value))
            : await atTime(place, partitions, new Date(wish.value), signal);
      return await pageAfter(place, partitions, position, PAGE_SIZE, signal);
    });
  const turn = (to: "older" | "newer") => {
    const { page, partition: of, isNewestFirst } = loaded;
    if (page === null) return;
    void load(of, isNewestFirst, (partitions, signal) =>
      to === "older"
        ? pageBefore(place, partitions, page.before, PAGE_SIZE, signal)
        : pageAfter(place, partitions, page.after, PAGE_SIZE, signal),
    );
  };

  // Once for each topic.
  useEffect(() => {
    begin(BEGINNING);
    return () => running.current?.abort();
  }, [path]);

  return { ...loaded, error, begin, older: () => turn("older"), newer: () => turn("newer") };
}
