/** Failures in a cluster, as sentences. */

import { useState } from "preact/hooks";
import { ApiError } from "./api/request.ts";
import type { ClusterState } from "./api/types.ts";
import { plural } from "./format.ts";
import { usePolled } from "./polled.ts";

const INTERVAL_MS = 10_000;

/** Problems of the cluster; none for users who may not read the server. */
export function useClusterProblems(): readonly string[] {
  const [isRefused, setRefused] = useState(false);
  const { data, error } = usePolled<ClusterState>(isRefused ? null : "/cluster", INTERVAL_MS);
  // Another request would be refused as well.
  if (error instanceof ApiError && error.status === 403 && !isRefused) setRefused(true);
  return data === undefined ? [] : problemsOf(data);
}

export function problemsOf({ unready, nodes, replicas }: ClusterState): string[] {
  const problems = unready === null ? [] : [`Clients should use another gateway: ${unready}.`];
  const absent = nodes.filter(({ state }) => state === "silent" || state === "unreachable");
  if (absent.length > 0) {
    const partitions = absent.reduce((sum, node) => sum + node.partitions_count, 0);
    problems.push(
      `No contact with ${absent.map(({ name }) => name).join(", ")}: ${plural(partitions, "partition")} cannot be read or written.`,
    );
  }
  const healthy = replicas.filter(({ state }) => state === "primary" || state === "backup").length;
  if (healthy < replicas.length) {
    const outcome =
      healthy > replicas.length / 2
        ? "the service works, with less redundancy"
        : "without a majority, changes and logins fail";
    problems.push(`${healthy} of ${plural(replicas.length, "metadata replica")} work: ${outcome}.`);
  }
  return problems;
}
