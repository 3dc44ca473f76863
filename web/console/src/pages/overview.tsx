import { useRef, useState } from "preact/hooks";
import type { ClusterState, Stats } from "../api/types.ts";
import { useClusterProblems } from "../cluster_problems.ts";
import { bytes, count, duration, rate, time } from "../format.ts";
import { useHistory } from "../history.ts";
import { usePolled } from "../polled.ts";
import { to } from "../router.ts";
import { Problems } from "../ui/notices.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { type Line, Plot } from "../ui/plot.tsx";

const INTERVAL_MS = 1000;
const WINDOWS = [
  [3600, "hour"],
  [180, "3 minutes"],
] as const;
const YOUNG_SECONDS = 600;
const MESSAGES: Line[] = [{ label: "messages", colour: "--plot-1" }];
const BYTES: Line[] = [{ label: "bytes", colour: "--plot-1" }];
const CPU: Line[] = [
  { label: "server", colour: "--plot-1" },
  { label: "machine", colour: "--plot-2" },
];
const MEMORY: Line[] = [{ label: "server", colour: "--plot-1" }];

const perSecond = (value: number) => `${rate(value)}/s`;
const bytesPerSecond = (value: number) => `${bytes(value)}/s`;
const percent = (value: number) => `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;

export function Overview() {
  const { data: stats, error, seenAt } = usePolled<Stats>("/stats?sizes=bytes", INTERVAL_MS);
  const [chosen, setWindow] = useState<number | null>(null);
  // What a server has done since a start a moment ago is a hairline in an hour. Decided once, so that nothing jumps.
  const wasYoung = useRef<boolean | null>(null);
  if (stats !== undefined) wasYoung.current ??= stats.run_time / 1e6 < YOUNG_SECONDS;
  const window = chosen ?? WINDOWS[wasYoung.current ? 1 : 0][0];
  const { data: cluster } = usePolled<ClusterState>("/cluster", 60_000);
  const problems = useClusterProblems();
  const isGateway = cluster?.kind === "gateway";
  const history = useHistory(stats, window);
  return (
    <Page title="Overview" error={error} seenAt={seenAt} needs="Read servers">
      {error && !stats && (
        <p>
          What your account may read is below <a href={to("streams")}>Streams</a> and{" "}
          <a href={to("groups")}>Consumer groups</a>.
        </p>
      )}
      {stats && (
        <>
          <Problems problems={problems} />
          <dl class="tiles">
            <Tile label="Streams" value={count(stats.streams_count)} />
            <Tile label="Topics" value={count(stats.topics_count)} />
            <Tile label="Partitions" value={count(stats.partitions_count)} />
            <Tile label="Messages" value={count(stats.messages_count)} />
            <Tile label="Size" value={bytes(stats.messages_size_bytes)} />
            <Tile label="Clients" value={count(stats.clients_count)} />
            <Tile label="Consumer groups" value={count(stats.consumer_groups_count)} />
            <Tile label="Up for" value={duration(stats.run_time / 1e6)} />
          </dl>
          <div class="section-head">
            <h2>The last {WINDOWS.find(([seconds]) => seconds === window)?.[1]}</h2>
            <fieldset class="segments" aria-label="Time of the plots">
              {WINDOWS.map(([seconds, label]) => (
                <button
                  key={seconds}
                  type="button"
                  class="button small"
                  aria-pressed={window === seconds}
                  onClick={() => setWindow(seconds)}
                >
                  {label}
                </button>
              ))}
            </fieldset>
          </div>
          <div class="plots">
            <Plot
              title="Messages appended"
              data={[history.seconds, history.messages]}
              lines={MESSAGES}
              format={perSecond}
              window={window}
            />
            <Plot
              title="Bytes appended"
              data={[history.seconds, history.bytes]}
              lines={BYTES}
              format={bytesPerSecond}
              isBinary
              window={window}
            />
            <Plot
              title="Processor"
              data={[history.seconds, history.serverCpu, history.machineCpu]}
              lines={CPU}
              format={percent}
              window={window}
            />
            <Plot
              title="Memory"
              data={[history.seconds, history.memory]}
              lines={MEMORY}
              format={bytes}
              isBinary
              window={window}
            />
          </div>
          <Panel title={isGateway ? `Gateway ${cluster.process_name}` : "Server"} isPadded>
            <dl class="facts">
              <dt>Version</dt>
              <dd>
                {cluster && `Headrace ${cluster.release}, `}protocol of Iggy {stats.iggy_server_version}
              </dd>
              <dt>Host</dt>
              <dd>
                {stats.hostname}, {stats.os_name} {stats.os_version}, kernel {stats.kernel_version}
              </dd>
              <dt>Process</dt>
              <dd>
                {stats.process_id}, {stats.threads_count} threads, since {time(stats.start_time)}
              </dd>
              <dt>Memory</dt>
              <dd>
                {bytes(stats.memory_usage)} used by the server, {bytes(stats.available_memory)} of{" "}
                {bytes(stats.total_memory)} available
              </dd>
              <dt>Disk</dt>
              <dd>
                {isGateway && "of the gateway, which stores no messages: "}
                {bytes(stats.free_disk_space)} of {bytes(stats.total_disk_space)} free,{" "}
                {bytes(stats.written_bytes)} written, {count(stats.segments_count)} segments
              </dd>
            </dl>
          </Panel>
        </>
      )}
    </Page>
  );
}

function Tile({ label, value }: { label: string; value: string }) {
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}
