import { useEffect, useRef } from "preact/hooks";
import type { Stream, TopicDetails } from "../../api/types.ts";
import { bytes, plural } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { to } from "../../router.ts";
import { Problems } from "../../ui/notices.tsx";
import { Page } from "../../ui/page.tsx";
import { Messages } from "../messages/browser.tsx";
import { Live } from "../messages/live.tsx";
import { Consumers } from "./consumers.tsx";
import { PARTITION_STATES, Partitions } from "./partitions.tsx";
import { Send } from "./send.tsx";
import { TopicSettings } from "./settings.tsx";

const TABS = [
  ["messages", "Messages"],
  ["live", "Live"],
  ["partitions", "Partitions"],
  ["consumers", "Consumers"],
  ["send", "Send"],
  ["settings", "Settings"],
] as const;

interface TopicProps {
  stream: string;
  topic: string;
  tab: string;
}

export function TopicPage({ stream, topic: id, tab }: TopicProps) {
  const path = `/streams/${stream}/topics/${id}`;
  const { data: owner } = usePolled<Stream>(`/streams/${stream}`, 60_000);
  const { data: topic, error, seenAt, reload } = usePolled<TopicDetails>(`${path}?sizes=bytes`, 2000);
  return (
    <Page
      title={topic?.name ?? `Topic ${id}`}
      needs="Read topics"
      missing={`There is no topic ${id} in this stream. It may have been deleted or renamed.`}
      crumbs={[
        { label: "Streams", href: to("streams") },
        { label: owner?.name ?? stream, href: to("streams", stream) },
      ]}
      error={error}
      seenAt={seenAt}
      aside={
        topic && (
          <p class="quiet">
            Topic {topic.id} · {plural(topic.messages_count, "message")} · {bytes(topic.size)}
          </p>
        )
      }
    >
      {!(error && !topic) && <Tabs stream={stream} topic={id} tab={tab} />}
      {topic && <Problems problems={unservedOf(topic)} />}
      {topic && owner && tab === "messages" && <Messages path={path} stream={owner.id} topic={topic} />}
      {topic && tab === "partitions" && <Partitions path={path} topic={topic} onDone={reload} />}
      {topic && owner && tab === "live" && <Live stream={owner.id} topic={topic} />}
      {topic && owner && tab === "consumers" && <Consumers path={path} stream={owner.id} topic={topic.id} />}
      {topic && owner && tab === "send" && <Send stream={owner.id} topic={topic} />}
      {topic && owner && tab === "settings" && (
        <TopicSettings path={path} stream={owner.id} topic={topic} onDone={reload} />
      )}
    </Page>
  );
}

/** Partitions that cannot be read or written now, by reason. */
function unservedOf({ partitions }: TopicDetails): string[] {
  return (["unreachable", "unplaced", "failed"] as const).flatMap((state) => {
    const ids = partitions.filter((partition) => partition.state === state).map(({ id }) => id);
    if (ids.length === 0) return [];
    const names = `${ids.length === 1 ? "Partition" : "Partitions"} ${ids.join(", ")}`;
    return [`${names} cannot be read or written: ${PARTITION_STATES[state]}.`];
  });
}

function Tabs({ stream, topic, tab }: TopicProps) {
  const current = useRef<HTMLAnchorElement>(null);
  // On a phone, only some of the tabs are in sight.
  useEffect(() => current.current?.scrollIntoView({ block: "nearest", inline: "nearest" }), [tab]);
  return (
    <nav class="tabs" aria-label="Of this topic">
      {TABS.map(([name, label]) => (
        <a
          key={name}
          ref={tab === name ? current : null}
          href={to("streams", stream, "topics", topic, name)}
          aria-current={tab === name ? "page" : undefined}
        >
          {label}
        </a>
      ))}
    </nav>
  );
}
