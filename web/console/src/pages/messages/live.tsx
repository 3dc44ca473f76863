import type { Filter, HeaderCondition, Message, Notice, Start, Subscription } from "@headrace/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TopicDetails } from "../../api/types.ts";
import { count, rate } from "../../format.ts";
import { live } from "../../push.ts";
import { ChoiceField, TextField } from "../../ui/fields.tsx";
import { ErrorNotice } from "../../ui/notices.tsx";
import { Panel } from "../../ui/page.tsx";
import { PauseButton } from "../../ui/pause.tsx";
import { PlaceFields, type ReadingPlace } from "./place_fields.tsx";
import { MessageTable } from "./table.tsx";

const KEPT_MAX = 500;
const SHOWN_EVERY_MS = 120;
const CREDIT = { messages: 500, bytes: 2 * 2 ** 20 };

type Condition = "none" | "equals" | "prefix" | "exists";

interface Wish extends ReadingPlace<"last"> {
  header: string;
  condition: Condition;
  expected: string;
  key: string;
}

const BEGINNING: Wish = {
  partition: "",
  begin: "last",
  value: "",
  header: "",
  condition: "none",
  expected: "",
  key: "",
};

export function Live({ topic, stream }: { topic: TopicDetails; stream: number }) {
  const [wish, setWish] = useState(BEGINNING);
  const [asked, setAsked] = useState(BEGINNING);
  const [isPaused, setPaused] = useState(false);
  const tail = useTail(stream, topic.id, asked, isPaused);
  const change = (part: Partial<Wish>) => setWish({ ...wish, ...part });
  return (
    <>
      <form
        class="panel filters"
        aria-label="What is shown"
        onSubmit={(event) => {
          event.preventDefault();
          setAsked({ ...wish });
          setPaused(false);
        }}
      >
        <PlaceFields partitions={topic.partitions} own={["last", "now"]} place={wish} onChange={change} />
        <ChoiceField
          label="Header"
          value={wish.condition}
          options={[
            ["none", "any"],
            ["equals", "equals"],
            ["prefix", "begins with"],
            ["exists", "is there"],
          ]}
          onValue={(condition) => change({ condition })}
        />
        {wish.condition !== "none" && (
          <TextField
            label="Header name"
            value={wish.header}
            onValue={(header) => change({ header })}
            required
          />
        )}
        {(wish.condition === "equals" || wish.condition === "prefix") && (
          <TextField
            label="Header value"
            value={wish.expected}
            onValue={(expected) => change({ expected })}
            required
          />
        )}
        <TextField label="Key" value={wish.key} placeholder="any" onValue={(key) => change({ key })} />
        <button type="submit" class="button primary">
          Apply
        </button>
      </form>
      {tail.error && <ErrorNotice error={tail.error} />}
      {tail.notices.map((notice) => (
        <p key={notice} class="notice warn" role="status">
          {notice}
        </p>
      ))}
      {isPaused && (
        <p class="notice">
          Paused: the server sends nothing. “Go on” continues with the next message, so none is lost.
        </p>
      )}
      <Panel
        title="Messages"
        actions={
          <>
            <span class="quiet">
              {/* Announce state changes only; the changing numbers would be read out without end. */}
              <span role="status">{isPaused ? "paused" : tail.isOpen ? "live" : "connecting"}</span> ·{" "}
              {count(tail.total)} received · {rate(tail.perSecond)}/s
              {tail.dropped > 0 &&
                ` · the newest ${count(KEPT_MAX)} are shown, ${count(tail.dropped)} are not`}
            </span>
            <button type="button" class="button small" onClick={tail.clear}>
              Clear
            </button>
            <PauseButton isPaused={isPaused} onPaused={setPaused} />
          </>
        }
      >
        <MessageTable
          messages={tail.messages}
          empty="Nothing yet. What is sent from now on appears here at once."
        />
      </Panel>
    </>
  );
}

interface Tail {
  /** Newest first. */
  messages: readonly Message[];
  total: number;
  /** Received messages that have been pushed out by newer ones. */
  dropped: number;
  perSecond: number;
  notices: readonly string[];
  isOpen: boolean;
  error: Error | null;
  clear: () => void;
}

const NOTHING = {
  messages: [] as Message[],
  total: 0,
  dropped: 0,
  perSecond: 0,
  notices: [] as string[],
  noticeCount: 0,
};

function useTail(stream: number, topic: number, wish: Wish, isPaused: boolean): Tail {
  const [shown, setShown] = useState(NOTHING);
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const cleared = useRef(() => {});
  // A paused reader takes no more messages, so the server stops sending.
  const gate = useRef<{ open: Promise<void>; release: () => void } | null>(null);

  useLayoutEffect(() => {
    if (!isPaused) {
      gate.current?.release();
      gate.current = null;
      return;
    }
    let release = () => {};
    const open = new Promise<void>((resolve) => {
      release = resolve;
    });
    gate.current = { open, release };
  }, [isPaused]);

  useEffect(() => {
    let subscription: Subscription | null = null;
    let isOver = false;
    let kept: Message[] = [];
    let total = 0;
    let clearedAt = 0;
    let before = { total: 0, at: performance.now(), perSecond: 0 };
    const notices: string[] = [];
    const show = () => {
      const elapsed = (performance.now() - before.at) / 1000;
      if (elapsed >= 1)
        before = { total, at: performance.now(), perSecond: (total - before.total) / elapsed };
      const { perSecond } = before;
      setShown((last) => {
        const isAsBefore =
          last.total === total &&
          last.perSecond === perSecond &&
          last.noticeCount === notices.length &&
          last.messages.length === Math.min(kept.length, KEPT_MAX);
        if (isAsBefore) return last;
        const messages = kept.slice(-KEPT_MAX).reverse();
        return {
          messages,
          total,
          dropped: total - clearedAt - messages.length,
          perSecond,
          notices: notices.slice(-3),
          noticeCount: notices.length,
        };
      });
    };
    setShown(NOTHING);
    setError(null);
    setOpen(false);
    const timer = setInterval(show, SHOWN_EVERY_MS);
    const run = async () => {
      const client = await live();
      subscription = await client.subscribe({
        topics: [
          {
            stream,
            topic,
            ...(wish.partition === "" ? {} : { partitions: [Number(wish.partition)] }),
            start: startOf(wish),
          },
        ],
        filter: filterOf(wish),
        credit: CREDIT,
        onNotice: (notice) => notices.push(textOf(notice)),
      });
      if (isOver) return await subscription.close();
      setOpen(true);
      for await (const message of subscription) {
        if (isOver) break;
        kept.push(message);
        if (kept.length > 2 * KEPT_MAX) kept = kept.slice(-KEPT_MAX);
        total += 1;
        await gate.current?.open;
      }
    };
    run().catch((failure: Error) => {
      if (!isOver) setError(failure);
    });
    cleared.current = () => {
      kept = [];
      clearedAt = total;
      show();
    };
    return () => {
      isOver = true;
      clearInterval(timer);
      gate.current?.release();
      void subscription?.close();
    };
  }, [stream, topic, wish]);

  return { ...shown, isOpen, error, clear: () => cleared.current() };
}

function startOf({ begin, value }: Wish): Start {
  if (begin === "offset") return { offset: Number(value) };
  if (begin === "time") return { timestamp: new Date(value) };
  return begin;
}

function filterOf({ condition, header, expected, key }: Wish): Filter {
  const conditions: Record<Condition, HeaderCondition[]> = {
    none: [],
    equals: [{ name: header, equals: literal(expected) }],
    prefix: [{ name: header, prefix: expected }],
    exists: [{ name: header, exists: true }],
  };
  return { headers: conditions[condition], ...(key === "" ? {} : { key }) };
}

/** Text that looks like a number or a boolean is taken as one. */
function literal(text: string): string | number | boolean {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

function textOf(notice: Notice): string {
  const where = `Partition ${notice.partitionId}`;
  switch (notice.type) {
    case "reset":
      return `${where} was purged or created anew: it goes on at offset ${notice.offset}.`;
    case "gap":
      return `${where}: messages from ${notice.from} to ${notice.to - 1} were removed before they could be shown.`;
    case "added":
      return `${where} was added.`;
    case "end":
      return `${where} cannot be read any more: ${notice.reason}`;
  }
}
