// Statistics: what happened by day, what models cost, what sessions were told, what was learned where, the queue and the store.
import { useMemo } from "preact/hooks";
import { address, href, setParam } from "../address";
import { get, useLoad } from "../api";
import { Button, Chart, Filters, State } from "../components";
import { projectLabel } from "../components/filters";
import { day, duration, money } from "../format";
import { useKept } from "../kept";
import { bytes, plural, short } from "../text";
import type { QueueStats, StatDay, Stats, WhereLearned } from "../types";

const SPANS = [7, 30, 90, 365];
/** What takes room in the store -> how it is called. */
const PURPOSES: Record<string, string> = {
  events: "Tool uses",
  conversation: "Conversations",
  memory: "Observations and summaries",
  index: "Index of words",
  vectors: "Vectors",
  transcripts: "Kept transcripts",
  rest: "The rest",
};

export default function StatsPage() {
  const { params } = address.value;
  const project = params.get("project") ?? "";
  const days = SPANS.find((span) => String(span) === params.get("days")) ?? 30;
  return (
    <>
      <header>
        <h1>Statistics</h1>
      </header>
      <div class="toolbar">
        <Filters names={["project"]} />
        <div class="buttons" role="group" aria-label="Days">
          {SPANS.map((span) => (
            <Button key={span} pressed={span === days} onClick={() => setParam("days", String(span))}>
              {span === 365 ? "Year" : `${span} days`}
            </Button>
          ))}
        </div>
      </div>
      <ByDay project={project} days={days} />
      <Where project={project} />
      <Waiting />
      <Store />
    </>
  );
}

const sum = (values: (number | null)[]): number => values.reduce<number>((total, value) => total + (value ?? 0), 0);

/** Calls whose price is not known are not free. */
function costOf(micros: number, withoutPrice: number): string {
  if (!withoutPrice) return money(micros);
  return micros ? `over ${money(micros)}` : "not known";
}

function ByDay({ project, days }: { project: string; days: number }) {
  const load = useLoad<{ items: StatDay[] }>((abort) => get("/api/stats/days", { project, days }, abort), [project, days]);
  const rows = useKept(load.data)?.items;
  const shown = useMemo(() => {
    const column = (name: string, of: keyof StatDay) => ({ name, values: (rows ?? []).map((row) => Number(row[of])) });
    return {
      labels: (rows ?? []).map((row) => day(row.day)),
      activity: [column("observations", "observations"), column("summaries", "summaries"), column("prompts", "prompts")],
      tokens: [column("spent to observe", "tokens_spent"), column("told, about", "tokens_told_estimate")],
    };
  }, [rows]);
  if (!rows) {
    return (
      <div class="charts">
        <State loading={load.loading} error={load.error} retry={load.reload} />
      </div>
    );
  }
  const total = (of: keyof StatDay) => sum(rows.map((row) => Number(row[of])));
  const tiles: [string, string][] = [
    ["sessions", short(total("sessions"))],
    ["prompts", short(total("prompts"))],
    ["observations", short(total("observations"))],
    ["tokens told, about", short(total("tokens_told_estimate"))],
    ["tokens spent to observe", short(total("tokens_spent"))],
    ["cost of observing", costOf(total("cost_micros"), total("calls_without_price"))],
  ];
  const rest = (series: { values: (number | null)[] }) => short(sum(series.values));
  return (
    <>
      <dl class="tiles">
        {tiles.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {total("sessions") + total("prompts") + total("observations") === 0 ? (
        <p class="quiet">
          Nothing happened in these days.{" "}
          {days < 365 && (
            <Button kind="quiet" onClick={() => setParam("days", "365")}>
              Show the year
            </Button>
          )}
        </p>
      ) : (
        <>
          <Chart title="Activity by day" labels={shown.labels} series={shown.activity} kind="bars" unit="Day" rest={rest} />
          <Chart title="Tokens by day" labels={shown.labels} series={shown.tokens} kind="bars" unit="Day" rest={rest} />
          <p class="quiet">
            Models spend tokens to observe; the provider offline spends none. Told is what agents took, at the start of a session and
            with prompts: {plural(total("contexts"), "context")} in these days.
          </p>
        </>
      )}
    </>
  );
}

function Where({ project }: { project: string }) {
  const load = useLoad<WhereLearned>((abort) => get("/api/stats/files", { project }, abort), [project]);
  const found = useKept(load.data);
  if (!found) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  const { files, projects, types } = found;
  const told = projects.filter((one) => one.observations);
  return (
    <div class="columns">
      <Bars
        title="Observations by file"
        unit="File"
        nothing="No observation names a file."
        rows={files.map((one) => ({
          label: one.path,
          value: one.observations,
          to: href("/search", { file: one.path, project: one.project }),
        }))}
      />
      <div>
        <Bars
          title="Observations by project"
          unit="Project"
          nothing="There is no project."
          rows={told.map((one) => ({
            label: projectLabel(one, told),
            value: one.observations,
            to: href("/", { project: one.key }),
          }))}
        />
        <Bars
          title="Observations by type"
          unit="Type"
          nothing="There is no observation."
          rows={types.map((one) => ({ label: one.type, value: one.observations, to: href("/", { project, type: one.type }) }))}
        />
      </div>
    </div>
  );
}

interface BarsProps {
  title: string;
  unit: string;
  nothing: string;
  rows: { label: string; value: number; to?: string }[];
  format?: (value: number) => string;
}

/** A table whose amounts are bars, too. */
function Bars({ title, unit, nothing, rows, format = (value) => value.toLocaleString("en") }: BarsProps) {
  const most = Math.max(...rows.map((row) => row.value), 1);
  return (
    <section>
      <h2>{title}</h2>
      {!rows.length && <p class="quiet">{nothing}</p>}
      {rows.length > 0 && (
        <table class="bars">
          <thead>
            <tr>
              <th scope="col">{unit}</th>
              <th scope="col">Amount</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                <th scope="row">
                  {row.to ? <a href={row.to}>{row.label}</a> : row.label}
                  <i style={{ width: `${(100 * row.value) / most}%` }} />
                </th>
                <td>{format(row.value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Distances of the lines of a chart in seconds. */
const SECONDS = [0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 604_800];
const MOMENT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** How long rounds waited until they were remembered. */
function Waiting() {
  const load = useLoad<QueueStats>((abort) => get("/api/stats/queue", {}, abort), []);
  const rounds = load.data?.rounds;
  const shown = useMemo(() => {
    const rows = rounds ?? [];
    return {
      labels: rows.map((row) => MOMENT.format(new Date(row.at))),
      series: [{ name: "remembered within", values: rows.map((row) => row.seconds) }],
    };
  }, [rounds]);
  if (!load.data) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  const { queued, leased, dead, p50_s, p95_s } = load.data;
  const usual = p50_s === null || p95_s === null ? "" : `${duration(p50_s)} (half), ${duration(p95_s)} (95 %)`;
  return (
    <>
      {shown.labels.length > 0 && (
        <Chart title="From the end of a round to memory" labels={shown.labels} series={shown.series} kind="lines" unit="Round" format={duration} steps={SECONDS} rest={() => usual} />
      )}
      <p class="quiet">
        The <a href={href("/health")}>queue</a> has {plural(queued, "event")} waiting, {leased} being observed and {dead} set aside.
      </p>
    </>
  );
}

function Store() {
  const load = useLoad<Stats>((abort) => get("/api/stats", {}, abort), []);
  if (!load.data) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  const { sizes, room } = load.data;
  const rows = Object.entries(room).map(([name, value]) => ({ label: PURPOSES[name] ?? name, value }));
  return (
    <Bars
      title={`Size of the store: ${bytes(sizes.database ?? 0)}`}
      unit="What"
      nothing="This database does not tell the size of its parts."
      rows={rows.filter((row) => row.value).sort((one, other) => other.value - one.value)}
      format={bytes}
    />
  );
}
