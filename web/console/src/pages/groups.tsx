import { useState } from "preact/hooks";
import type { GroupLag } from "../api/types.ts";
import { count, duration, plural } from "../format.ts";
import { usePolled } from "../polled.ts";
import { to } from "../router.ts";
import { CheckField, ChoiceField, TextField } from "../ui/fields.tsx";
import { Page } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

const LIMITS_SECONDS = [
  ["60", "1 minute"],
  ["600", "10 minutes"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
] as const;
type Limit = (typeof LIMITS_SECONDS)[number][0];

export function Groups() {
  const { data: groups, error, seenAt } = usePolled<GroupLag[]>("/consumer-groups", 5000);
  const [text, setText] = useState("");
  const [limit, setLimit] = useState<Limit>("60");
  const [onlyLate, setOnlyLate] = useState(false);
  const stateOf = (group: GroupLag) => stateWith(group, Number(limit));
  const late = groups?.filter((group) => stateOf(group).isLate) ?? [];
  const wanted = text.toLowerCase();
  const shown = (onlyLate ? late : groups)?.filter((group) =>
    `${group.name} ${group.stream_name}/${group.topic_name}`.toLowerCase().includes(wanted),
  );
  const columns: Column<GroupLag>[] = [
    {
      title: "Group",
      isHead: true,
      sort: (row) => row.name,
      cell: (row) => (
        <a href={to("streams", row.stream_id, "topics", row.topic_id, "consumers")}>{row.name}</a>
      ),
    },
    {
      title: "State",
      kind: "fit",
      sort: (row) => stateOf(row).text,
      cell: (row) => {
        const { text, isLate } = stateOf(row);
        return <span class={isLate ? "badge warn" : "badge"}>{text}</span>;
      },
    },
    {
      title: "Lag",
      kind: "number",
      sort: (row) => row.lag_messages,
      cell: (row) => (row.lag_messages === null ? "not computed" : count(row.lag_messages)),
    },
    {
      title: "Behind by",
      kind: "number",
      sort: (row) => row.lag_seconds,
      cell: ({ lag_seconds }) =>
        lag_seconds === null ? "–" : lag_seconds === 0 ? "0 s" : duration(lag_seconds),
    },
    {
      title: "Members",
      kind: "number",
      sort: (row) => row.members_count,
      cell: (row) => count(row.members_count),
    },
    {
      title: "Partitions",
      kind: "number",
      sort: (row) => row.partitions_count,
      cell: (row) => count(row.partitions_count),
    },
    {
      title: "Topic",
      sort: (row) => `${row.stream_name}/${row.topic_name}`,
      cell: (row) => (
        <a href={to("streams", row.stream_id, "topics", row.topic_id)}>
          {row.stream_name}/{row.topic_name}
        </a>
      ),
    },
  ];
  return (
    <Page
      title="Consumer groups"
      needs="Read streams"
      error={error}
      seenAt={seenAt}
      aside={
        groups && (
          <p class="quiet">
            {plural(groups.length, "group")}
            {late.length > 0 && (
              <>
                {" · "}
                <span class="badge warn">{plural(late.length, "lags", "lag")}</span>
              </>
            )}
          </p>
        )
      }
    >
      {!(error && !groups) && (
        <div class="panel">
          <div class="inline-form">
            <TextField label="Contains" type="search" value={text} onValue={setText} />
            <ChoiceField
              label="Warn if behind by"
              value={limit}
              options={LIMITS_SECONDS}
              onValue={setLimit}
            />
            <CheckField value={onlyLate} onValue={setOnlyLate}>
              Only groups that lag
            </CheckField>
          </div>
          <Table
            label="Consumer groups"
            columns={columns}
            rows={shown}
            id={(row) => `${row.stream_id}/${row.topic_id}/${row.id}`}
            empty={groups?.length === 0 ? "There are no consumer groups yet." : "There is no such group."}
            sorted={{ column: "Behind by", isDescending: true }}
          />
        </div>
      )}
    </Page>
  );
}

/** A group without members is late with its first message: nothing will process it. */
function stateWith(group: GroupLag, limitSeconds: number): { text: string; isLate: boolean } {
  if (group.lag_messages === null) return { text: "unknown", isLate: false };
  if (group.lag_messages === 0) return { text: "up to date", isLate: false };
  if (group.members_count === 0) return { text: "no members", isLate: true };
  if ((group.lag_seconds ?? 0) >= limitSeconds) return { text: "lags", isLate: true };
  return { text: "reading", isLate: false };
}
