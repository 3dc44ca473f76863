import { useMemo, useState } from "preact/hooks";
import {
  type Action,
  act,
  type Connector,
  type ConnectorError,
  type ConnectorHistory,
  type ConnectorVersions,
  changed,
  connectorPath,
  type Destination,
  type StateChange,
  type TransformReport,
} from "../../api/connectors.ts";
import { bytes, count, perSecond, plural, rate } from "../../format.ts";
import { usePolled } from "../../polled.ts";
import { go, to } from "../../router.ts";
import { Danger } from "../../ui/danger.tsx";
import { ErrorNotice, Problems, toast } from "../../ui/notices.tsx";
import { Page, Panel } from "../../ui/page.tsx";
import { type Line, Plot } from "../../ui/plot.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { known, lagText, StateBadge, when } from "./columns.tsx";
import { Change, Versions } from "./versions.tsx";

const HOUR_SECONDS = 3600;
const YOUNG_SECONDS = 600;
const RECORDS: Line[] = [{ label: "records", colour: "--plot-1" }];
const LAG: Line[] = [{ label: "lag", colour: "--plot-2" }];
const recordsPerSecond = (value: number) => `${rate(value)}/s`;

/** A number of messages; the axis has no half ones. */
const wholeCount = (value: number) => (Number.isInteger(value) ? count(value) : "");

const DONE: Record<Action, string> = { start: "was started", stop: "was stopped", restart: "was restarted" };

export function ConnectorPage({ id: key }: { id: string }) {
  const path = connectorPath(key);
  const { data: connector, error, seenAt, reload } = usePolled<Connector>(path, 2000);
  const versions = usePolled<ConnectorVersions>(`${path}/versions`, 5000);
  const [isChanging, setChanging] = useState(false);
  const [failed, setFailed] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const refresh = () => {
    reload();
    versions.reload();
  };
  const run = async (action: Action) => {
    setBusy(true);
    setFailed(null);
    try {
      await act(key, action);
      toast(`${key} ${DONE[action]}.`);
    } catch (failure) {
      setFailed(failure as Error);
    }
    setBusy(false);
    refresh();
  };
  const isStopped = connector?.state === "stopped" || connector?.state === "error";
  const isChangeable = versions.data?.is_changeable ?? false;
  return (
    <Page
      title={key}
      needs="Read servers"
      missing={`There is no connector ${key}. It may have been deleted.`}
      crumbs={[{ label: "Connectors", href: to("connectors") }]}
      error={error}
      seenAt={seenAt}
      aside={
        connector && (
          <p class="quiet">
            {connector.kind} · {connector.plugin}
          </p>
        )
      }
      actions={
        connector && (
          <>
            {isStopped ? (
              <button type="button" class="button" disabled={isBusy} onClick={() => void run("start")}>
                Start
              </button>
            ) : (
              <button type="button" class="button" disabled={isBusy} onClick={() => void run("stop")}>
                Stop
              </button>
            )}
            <button type="button" class="button" disabled={isBusy} onClick={() => void run("restart")}>
              Restart
            </button>
            <button
              type="button"
              class="button primary"
              disabled={!isChangeable}
              onClick={() => setChanging(true)}
            >
              Change
            </button>
          </>
        )
      }
    >
      {failed && <ErrorNotice error={failed} needs="Manage servers" />}
      {connector && (
        <>
          <Problems problems={problemsOf(connector)} />
          <Status connector={connector} />
          <Progress path={path} connector={connector} />
          {connector.kind === "source" && <Destinations path={path} />}
          <Panel title="Errors">
            <Table
              label="Errors"
              columns={ERRORS}
              rows={connector.errors.toReversed()}
              id={(row) => row.first_at}
              isStacked
              empty="There were no errors."
            />
          </Panel>
          <Panel title="Changes of the state">
            <Table
              label="Changes of the state"
              columns={CHANGES}
              rows={connector.history.toReversed()}
              id={(row) => `${row.at} ${row.state}`}
              isStacked
              empty="There were none."
            />
          </Panel>
        </>
      )}
      {versions.data && <Versions versions={versions.data} onDone={refresh} />}
      {versions.data && isChanging && (
        <Change versions={versions.data} onClose={() => setChanging(false)} onDone={refresh} />
      )}
      {connector && versions.data && isChangeable && (
        <Danger
          actions={[
            {
              title: `Delete ${key}`,
              action: "Delete the connector",
              text: "Stops the connector. Its versions stay, and one of them can be activated later.",
              name: key,
              onConfirm: async () => {
                await changed("DELETE", path, versions.data?.epoch ?? 0);
                toast(`Connector ${key} was deleted.`);
                go("connectors");
              },
            },
          ]}
        />
      )}
    </Page>
  );
}

function problemsOf({ state, last_error, transforms }: Connector): string[] {
  const found = Object.entries(transforms).flatMap(([name, report]) =>
    report.error ? [`Transform ${name}: ${report.error}`] : [],
  );
  if ((state === "degraded" || state === "error") && last_error !== null) found.unshift(last_error);
  return found;
}

function Status({ connector }: { connector: Connector }) {
  const tiles: [string, string][] = [
    ["Records", count(connector.records_count)],
    ["Throughput", perSecond(connector.records_per_second ?? undefined)],
    ["Lag", lagText(connector.lag)],
    ["Batches", count(connector.batches_count)],
    ["Failures in a row", count(connector.consecutive_failures)],
    ...(connector.dead_letters_count === null
      ? []
      : [["Dead letters", count(connector.dead_letters_count)] as [string, string]]),
  ];
  return (
    <>
      <dl class="tiles">
        {tiles.map(([label, value]) => (
          <div key={label} class="tile">
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Panel title="State" isPadded>
        <dl class="facts">
          <dt>State</dt>
          <dd>
            <StateBadge state={connector.state} />
          </dd>
          <dt>Last commit</dt>
          <dd>{when(connector.last_commit_at)}</dd>
          <dt>Last error</dt>
          <dd>
            {connector.last_error === null
              ? "–"
              : `${when(connector.last_error_at)}: ${connector.last_error}`}
          </dd>
          {connector.runs_in !== null && (
            <>
              <dt>Runs in</dt>
              <dd>{connector.runs_in}</dd>
            </>
          )}
          {connector.topics.length > 0 && (
            <>
              <dt>Reads</dt>
              <dd>
                {connector.topics.map(({ stream, topic }, index) => (
                  <span key={`${stream}/${topic}`}>
                    {index > 0 && ", "}
                    <a href={to("streams", stream, "topics", topic)}>
                      {stream}/{topic}
                    </a>
                  </span>
                ))}
                {connector.group !== null && ` as the group ${connector.group}`}
              </dd>
            </>
          )}
          {Object.entries(connector.transforms).map(([name, report]) => (
            <Transform key={name} name={name} report={report} />
          ))}
        </dl>
      </Panel>
    </>
  );
}

function Transform({ name, report }: { name: string; report: TransformReport }) {
  const texts = Object.entries(report).flatMap(([label, value]) =>
    value === null ? [] : [`${label.replaceAll("_", " ")} ${String(value)}`],
  );
  return (
    <>
      <dt>{name}</dt>
      <dd>{texts.join(", ")}</dd>
    </>
  );
}

function Progress({ path, connector }: { path: string; connector: Connector }) {
  const { data: history } = usePolled<ConnectorHistory>(`${path}/history`, 10_000);
  const [rates, lags] = useMemo(() => {
    const samples = history?.samples ?? [];
    const seconds = samples.map(({ at }) => Date.parse(at) / 1000);
    return [
      [seconds, samples.map((sample) => sample.records_per_second)],
      [seconds, samples.map((sample) => sample.lag?.behind ?? null)],
    ] as [[number[], (number | null)[]], [number[], (number | null)[]]];
  }, [history]);
  if (history === undefined) return null;
  // A few samples are a hairline in an hour.
  const [first = 0, last = 0] = [rates[0][0], rates[0].at(-1)];
  const isYoung = last - first < YOUNG_SECONDS;
  const window = isYoung ? YOUNG_SECONDS : HOUR_SECONDS;
  const isBytes = connector.lag?.unit === "bytes";
  return (
    <>
      <div class="section-head">
        <h2>The last {isYoung ? "10 minutes" : "hour"}</h2>
      </div>
      <div class="plots">
        <Plot
          title="Records per second"
          data={rates}
          lines={RECORDS}
          format={recordsPerSecond}
          window={window}
        />
        {connector.lag !== null && (
          <Plot
            title={isBytes ? "Bytes behind the log" : `Lag in ${connector.lag.unit}`}
            data={lags}
            lines={LAG}
            format={isBytes ? bytes : wholeCount}
            isBinary={isBytes}
            window={window}
          />
        )}
      </div>
    </>
  );
}

const DESTINATIONS: Column<Destination>[] = [
  {
    title: "Topic",
    isHead: true,
    kind: "fit",
    sort: (row) => `${row.stream}/${row.topic}`,
    cell: ({ stream, topic }) => (
      <a href={to("streams", stream, "topics", topic)}>
        {stream}/{topic}
      </a>
    ),
  },
  {
    title: "Circuit",
    kind: "fit",
    sort: (row) => row.circuit,
    cell: ({ circuit }) => (
      <span class={circuit === "closed" ? "badge good" : "badge warn"}>{circuit.replaceAll("_", " ")}</span>
    ),
  },
  {
    title: "Messages",
    kind: "number",
    isNamed: true,
    sort: (row) => row.messages_count,
    cell: (row) => count(row.messages_count),
  },
  {
    title: "Partitions",
    kind: "number",
    isNamed: true,
    sort: (row) => row.partitions_count,
    cell: (row) => known(row.partitions_count),
  },
  { title: "Last error", kind: "fill", isNamed: true, cell: (row) => row.last_error ?? "–" },
];

function Destinations({ path }: { path: string }) {
  const { data: destinations, error } = usePolled<Destination[]>(`${path}/destinations`, 5000);
  if (error && !destinations) return <ErrorNotice error={error} />;
  return (
    <Panel title={destinations ? plural(destinations.length, "destination") : "Destinations"}>
      <Table
        label="Destinations"
        columns={DESTINATIONS}
        rows={destinations}
        id={(row) => `${row.stream}/${row.topic}`}
        sorted={{ column: "Messages", isDescending: true }}
        isStacked
        empty="The source has written to no topic in this run."
      />
    </Panel>
  );
}

const ERRORS: Column<ConnectorError>[] = [
  { title: "Last seen", kind: "fit", cell: (row) => when(row.at) },
  { title: "Times", kind: "number", isNamed: true, cell: (row) => count(row.count) },
  { title: "First seen", kind: "fit", isNamed: true, cell: (row) => when(row.first_at) },
  { title: "Error", kind: "fill", cell: (row) => row.message },
];

const CHANGES: Column<StateChange>[] = [
  { title: "Time", kind: "fit", cell: (row) => when(row.at) },
  { title: "State", kind: "fit", cell: (row) => <StateBadge state={row.state} /> },
  { title: "Reason", kind: "fill", cell: (row) => row.reason ?? "–" },
];
