// Health: the worker, its provider, what doctor finds, and the queue.
import { useEffect, useState } from "preact/hooks";
import { address, href, setParam } from "../address";
import { get, type Load, post, useLoad } from "../api";
import { Badge, Button, Confirm, Copy, State, Text, Time, toast, tried } from "../components";
import { duration } from "../format";
import { getHealth } from "../health";
import { useEvents } from "../stream";
import { plural } from "../text";
import type { Finding, Health, Page, QueueRow } from "../types";
import { Provider } from "./provider";

/** Milliseconds between two looks, for what no event tells. */
const LOOK_MS = 15_000;
/** Events of the queue that are loaded, and that are shown at first. */
const LOADED = 100;
const SHOWN = 8;

export default function HealthPage() {
  const load = useLoad<Health>(getHealth, []);
  useEvents((event) => event === "queue", load.reload);
  useEffect(() => {
    const timer = setInterval(load.reload, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const doctor = useLoad<{ findings: Finding[] }>((abort) => get("/api/doctor", {}, abort), []);
  const health = load.data;
  if (!health) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  return (
    <>
      <header>
        <h1>Health</h1>
        <Verdict problems={health.problems} findings={doctor.data?.findings} />
      </header>
      <p class="meta">
        <span>backstory {health.version}</span>
        <span>{health.store === "postgres" ? "PostgreSQL" : "SQLite"}</span>
        <span>running for {duration(health.uptime_s)}</span>
        <span>process {health.pid}</span>
      </p>
      {health.notice && <p class="warn">{health.notice}</p>}
      {health.failing.map((job) => (
        <p key={job} class="warn">
          A background job failed: {job}
        </p>
      ))}
      <Queue health={health} reload={load.reload} />
      <section>
        <h2>Provider</h2>
        <Provider health={health} />
      </section>
      <Findings load={doctor} />
    </>
  );
}

/** Whether all is well: what the worker knows itself, and what doctor finds. */
function Verdict({ problems, findings }: { problems: string[]; findings: Finding[] | undefined }) {
  const found = findings?.filter((finding) => finding.level !== "note").map((finding) => finding.name) ?? [];
  const names = new Set([...problems, ...found]);
  if (names.size) return <Badge tone="warn">{plural(names.size, "problem")}</Badge>;
  return findings ? <Badge tone="ok">healthy</Badge> : <Badge>looking …</Badge>;
}

const STATES = [
  { status: "queued", label: "Waiting", nothing: "Nothing waits: everything is observed." },
  { status: "leased", label: "Being observed", nothing: "Nothing is being observed." },
  { status: "dead", label: "Set aside", nothing: "Nothing is set aside." },
] as const;

interface Part {
  health: Health;
  reload: () => void;
}

function Queue({ health, reload }: Part) {
  const named = address.value.params.get("queue");
  const chosen =
    STATES.find(({ status }) => status === named) ??
    [...STATES].reverse().find(({ status }) => health.queue[status]) ??
    STATES[0];
  return (
    <section>
      <h2>Queue</h2>
      <div class="tabs" role="group" aria-label="Which events">
        {STATES.map(({ status, label }) => (
          <Button key={status} pressed={status === chosen.status} onClick={() => setParam("queue", status)}>
            {label} {health.queue[status]}
          </Button>
        ))}
      </div>
      <Events key={chosen.status} status={chosen.status} nothing={chosen.nothing} total={health.queue[chosen.status]} reload={reload} />
    </section>
  );
}

interface EventsProps {
  status: string;
  nothing: string;
  total: number;
  reload: () => void;
}

function Events({ status, nothing, total, reload }: EventsProps) {
  const load = useLoad<Page<QueueRow>>((abort) => get("/api/queue", { status, limit: LOADED }, abort), [status, total]);
  const [asks, setAsks] = useState<number>();
  const [whole, setWhole] = useState(false);
  const isAside = status === "dead";
  const change = async (what: "retry" | "drop", id: number) => {
    const { changed } = await post<{ changed: number }>(`/api/queue/${what}`, { id });
    toast(`${plural(changed, "event")} ${what === "retry" ? "queued again" : "dropped"}.`);
    setAsks(undefined);
    load.reload();
    reload();
  };
  const retry = (id: number) => tried(() => change("retry", id));
  const rows = load.data?.items ?? [];
  if (!rows.length) {
    return <State loading={load.loading && total > 0} error={load.error} empty={<p>{nothing}</p>} retry={load.reload} />;
  }
  return (
    <>
      {(whole ? rows : rows.slice(0, SHOWN)).map((row) => (
        <div class="line" key={row.id}>
          <EventText row={row} />
          {isAside && (
            <div class="buttons">
              <Button onClick={() => void retry(row.id)} label={`Retry event ${row.id}`}>
                Retry
              </Button>
              <Button kind="danger" onClick={() => setAsks(row.id)} label={`Drop event ${row.id}`}>
                Drop …
              </Button>
            </div>
          )}
        </div>
      ))}
      {!whole && rows.length > SHOWN && (
        <p class="more">
          <Button onClick={() => setWhole(true)}>Show {load.data?.next ? `the first ${LOADED}` : `all ${rows.length}`}</Button>
        </p>
      )}
      {isAside && (
        <div class="buttons">
          <Button onClick={() => void retry(0)}>Retry all</Button>
          <Button kind="danger" onClick={() => setAsks(0)}>
            Drop all …
          </Button>
        </div>
      )}
      {asks !== undefined && (
        <Confirm
          title={asks ? `Drop event ${asks}?` : `Drop all ${total}?`}
          onClose={() => setAsks(undefined)}
          confirm="Drop"
          kind="danger"
          onConfirm={() => change("drop", asks)}
        >
          <p>It is never observed, and its content is deleted. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}

function EventText({ row }: { row: QueueRow }) {
  return (
    <div>
      <strong>{row.tool_name ?? row.kind}</strong>
      <p class="meta">
        <Time at={row.created_at} />
        <span>{row.project}</span>
        <a href={href(`/s/${row.session_id}`)}>session {row.session_id}</a>
        <span>event {row.id}</span>
        {row.attempts > 0 && <span>{plural(row.attempts, "attempt")}</span>}
      </p>
      {row.last_error && (
        <p class="warn">
          <Text text={row.last_error} />
        </p>
      )}
    </div>
  );
}

function Findings({ load }: { load: Load<{ findings: Finding[] }> }) {
  const findings = load.data?.findings ?? [];
  return (
    <section>
      <h2>
        Doctor{" "}
        <Button kind="quiet" onClick={load.reload} disabled={load.loading}>
          {load.loading ? "Looking …" : "Look again"}
        </Button>
      </h2>
      {!load.data && <State loading={load.loading} error={load.error} retry={load.reload} />}
      {load.data && !findings.length && <p class="ok">No problems found.</p>}
      {findings.map((finding) => (
        <div class="line" key={finding.name + finding.says}>
          <div>
            <Badge tone={finding.level === "note" ? undefined : "warn"}>{finding.level === "note" ? "note" : "problem"}</Badge>{" "}
            <strong>{finding.name}</strong>
            <p>
              <Text text={finding.says} />
            </p>
            <p class="quiet">
              <Text text={finding.do} />
            </p>
          </div>
          {finding.mends && <Copy text="backstory repair" label="Copy repair command" />}
        </div>
      ))}
    </section>
  );
}
