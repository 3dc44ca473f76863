import type { ClusterNode, ClusterState, MetadataReplica } from "../api/types.ts";
import { problemsOf } from "../cluster_problems.ts";
import { count, duration, plural } from "../format.ts";
import { usePolled } from "../polled.ts";
import { Problems } from "../ui/notices.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { type Column, Table } from "../ui/table.tsx";

const NODES: Column<ClusterNode>[] = [
  { title: "Node", isHead: true, sort: (row) => row.name, cell: (row) => row.name },
  {
    title: "State",
    kind: "fit",
    sort: (row) => row.state,
    cell: ({ state }) => <span class={state === "live" ? "badge good" : "badge warn"}>{state}</span>,
  },
  {
    title: "Partitions",
    kind: "number",
    sort: (row) => row.partitions_count,
    cell: (row) => count(row.partitions_count),
  },
  {
    title: "Shards",
    kind: "number",
    sort: (row) => row.shards_count,
    cell: (row) => count(row.shards_count),
  },
  { title: "Address", cell: (row) => <span class="mono">{row.address || "–"}</span> },
];

const number = (value: number | null) => (value === null ? "–" : count(value));

const REPLICAS: Column<MetadataReplica>[] = [
  {
    title: "Replica",
    isHead: true,
    cell: (row) => (row.address === "" ? "in this process" : <span class="mono">{row.address}</span>),
  },
  {
    title: "State",
    kind: "fit",
    cell: ({ state, is_storage_full }) => (
      <>
        <span class={state === "primary" || state === "backup" ? "badge good" : "badge warn"}>{state}</span>
        {is_storage_full && <span class="badge warn">disk full</span>}
      </>
    ),
  },
  { title: "View", kind: "number", cell: (row) => number(row.view) },
  { title: "Committed", kind: "number", cell: (row) => number(row.commit) },
  { title: "Applied", kind: "number", cell: (row) => number(row.applied) },
  { title: "Version", kind: "fit", cell: (row) => row.release ?? "–" },
];

export function Cluster() {
  const { data: cluster, error, seenAt } = usePolled<ClusterState>("/cluster", 3000);
  return (
    <Page
      title="Cluster"
      needs="Read servers"
      error={error}
      seenAt={seenAt}
      aside={
        cluster && (
          <p class="quiet">
            {cluster.name} · {plural(cluster.nodes.length, "partition node")} ·{" "}
            {plural(cluster.replicas.length, "metadata replica")}
          </p>
        )
      }
    >
      {cluster && (
        <>
          <Problems problems={problemsOf(cluster)} />
          <Panel title={cluster.kind === "gateway" ? "This gateway" : "This server"} isPadded>
            <dl class="facts">
              <dt>Name</dt>
              <dd>{cluster.process_name}</dd>
              <dt>Version</dt>
              <dd>Headrace {cluster.release}</dd>
              <dt>State</dt>
              <dd>
                {cluster.unready === null ? (
                  <span class="badge good">ready</span>
                ) : (
                  <span class="badge warn">not ready</span>
                )}
              </dd>
              <dt>Catalog</dt>
              <dd>
                version {count(cluster.catalog_version)}
                {cluster.kind === "gateway" && cluster.catalog_age_seconds !== null && (
                  <>, known to be current {duration(cluster.catalog_age_seconds)} ago</>
                )}
              </dd>
            </dl>
            {cluster.kind === "gateway" && (
              <p class="quiet panel-note">
                Gateways do not know each other: the console of another gateway is at its own address.
              </p>
            )}
          </Panel>
          <Panel title="Partition nodes">
            <Table
              label="Partition nodes"
              columns={NODES}
              rows={cluster.nodes}
              id={(row) => row.name}
              sorted={{ column: "Node", isDescending: false }}
              empty="No partition node has registered yet: messages cannot be stored."
            />
          </Panel>
          <Panel title="Metadata service">
            <Table
              label="Metadata service"
              columns={REPLICAS}
              rows={cluster.replicas}
              id={(row) => row.address}
              empty=""
            />
          </Panel>
        </>
      )}
    </Page>
  );
}
