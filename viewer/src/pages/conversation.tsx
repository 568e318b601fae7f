// The conversation of a session: each round with its replies, its tool uses folded, and its observations beside it.
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, get, toApiError } from "../api";
import { Badge, Button, Card, Markdown, State, Text, Time } from "../components";
import { plural } from "../text";
import type { Observation, Page, Round, Summary, ToolStep, ToolUse, TurnStep, WholeSession } from "../types";

/** Rounds that are loaded at once. */
const ROUNDS = 20;
/** Rounds that are shown before the one that the address names. */
const BEFORE = 2;

interface Loaded {
  rounds: Round[];
  next: string | null;
  /** The number before the first round that is loaded. */
  first: number;
}

export function Conversation({ session, from }: { session: WholeSession; from: number }) {
  const start = Math.max(-1, from - BEFORE - 1);
  const [loaded, setLoaded] = useState<Loaded>({ rounds: [], next: String(start), first: start });
  const [error, setError] = useState<ApiError>();
  const latest = useRef(loaded);
  const queue = useRef(Promise.resolve());
  const isBusy = useRef(false);

  const page = (cursor: number, limit: number) =>
    get<Page<Round>>(`/api/sessions/${session.id}/rounds`, { cursor: cursor < 0 ? "" : cursor, limit });
  /** Loads one after the other: each changes what the one before left. */
  const run = (load: (before: Loaded) => Promise<Partial<Loaded>>) => {
    queue.current = queue.current.then(async () => {
      try {
        const before = latest.current;
        latest.current = { ...before, ...(await load(before)) };
        setLoaded(latest.current);
        setError(undefined);
      } catch (problem) {
        setError(toApiError(problem));
      }
      isBusy.current = false;
    });
  };
  /** Loads what the reader wants to see, unless it is on its way. */
  const runOnce = (load: (before: Loaded) => Promise<Partial<Loaded>>) => {
    if (isBusy.current) return;
    isBusy.current = true;
    run(load);
  };
  const more = () =>
    runOnce(async ({ rounds, next }) => {
      if (next === null) return {};
      const found = await page(Number(next), ROUNDS);
      return { rounds: [...rounds, ...found.items], next: found.next };
    });
  const earlier = () =>
    runOnce(async (before) => {
      const first = Math.max(-1, before.first - ROUNDS);
      const found = await page(first, before.first - first);
      return { rounds: [...found.items, ...before.rounds], first };
    });
  // What is new in the session is in its last round, or in one after it.
  const refresh = () =>
    run(async ({ rounds, next }) => {
      const last = rounds[rounds.length - 1];
      if (!last || next !== null) return {};
      const found = await page(last.number - 1, ROUNDS);
      return { rounds: [...rounds.slice(0, -1), ...found.items], next: found.next };
    });
  useEffect(more, []);
  useEffect(refresh, [session.last_event_at, session.observations.length]);
  useEffect(() => {
    if (from && loaded.rounds.length) document.getElementById(`round-${from}`)?.scrollIntoView({ block: "start" });
  }, [Boolean(loaded.rounds.length)]);

  if (!loaded.rounds.length && loaded.next !== null) return <State loading={!error} error={error} retry={more} />;
  if (!loaded.rounds.length) return <State empty={<p>Nothing was said in this session.</p>} />;
  return (
    <div class="conversation">
      {loaded.first >= 0 && (
        <p class="more">
          <Button onClick={earlier}>Show earlier</Button>
        </p>
      )}
      {loaded.rounds.map((round) => (
        <RoundPart key={round.number} round={round} session={session} isNamed={round.number === from} />
      ))}
      {error && <State error={error} retry={more} />}
      {loaded.next !== null && <End reach={more} />}
    </div>
  );
}

/** Loads more when the reader comes near. */
function End({ reach }: { reach: () => void }) {
  const mark = useRef<HTMLParagraphElement>(null);
  const latest = useRef(reach);
  latest.current = reach;
  useEffect(() => {
    const watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && latest.current(), {
      rootMargin: "800px",
    });
    if (mark.current) watch.observe(mark.current);
    return () => watch.disconnect();
  });
  return (
    <p class="more" ref={mark}>
      <Button onClick={() => latest.current()}>Show more</Button>
    </p>
  );
}

function RoundPart({ round, session, isNamed }: { round: Round; session: WholeSession; isNamed: boolean }) {
  const summary = session.summaries.find((each) => each.prompt_number === round.number && each.source === "stop");
  const observations = session.observations.filter((each) => each.prompt_number === round.number).reverse();
  return (
    <section class={isNamed ? "round named" : "round"} id={`round-${round.number}`} aria-label={`Prompt ${round.number}`}>
      <div class="said">
        {folded(round.steps).map((part) =>
          Array.isArray(part) ? <Tools key={`t${part[0]?.id}`} uses={part} /> : <Turn key={part.number} turn={part} agent={session.agent} />,
        )}
        {!round.steps.length && <p class="quiet">Nothing is stored of this round.</p>}
      </div>
      <aside class="learned" aria-label={`Remembered of prompt ${round.number}`}>
        {observations.map((each) => (
          <Card key={each.id} entry={observed(each)} isPlain />
        ))}
        {summary && <Card entry={told(summary)} isPlain />}
        {!observations.length && !summary && <p class="quiet">Nothing was remembered.</p>}
      </aside>
    </section>
  );
}

/** An observation as an entry of a list. */
function observed(row: Observation) {
  const whole = row.narrative || row.facts.join(" ");
  const text = whole.startsWith(row.title) ? whole.slice(row.title.length).replace(/^[\s.:]+/, "") : whole;
  return { kind: "observation" as const, id: row.id, mark: row.mark, title: row.title, text, type: row.type, created_at: row.created_at, pinned: Boolean(row.pinned_at), superseded_by: row.superseded_by };
}

/** A summary as an entry of a list: what was done, and what is open. */
function told(row: Summary) {
  const text = [row.completed, row.next_steps && `Open: ${row.next_steps}`].filter(Boolean).join(" ");
  return { kind: "summary" as const, id: row.id, title: row.request || "Summary", text, created_at: row.created_at };
}

/** Steps with each run of tool uses as one part. */
function folded(steps: Round["steps"]): (TurnStep | ToolStep[])[] {
  const parts: (TurnStep | ToolStep[])[] = [];
  for (const step of steps) {
    const last = parts[parts.length - 1];
    if (step.kind === "turn") parts.push(step);
    else if (Array.isArray(last)) last.push(step);
    else parts.push([step]);
  }
  return parts;
}

function Turn({ turn, agent }: { turn: TurnStep; agent: string }) {
  return (
    <div class={`turn ${turn.role}`}>
      <p class="turn-head">
        <strong>{turn.speaker ?? (turn.role === "user" ? "You" : agent)}</strong> <Time at={turn.at} />
      </p>
      {turn.text === null ? <p class="quiet">private or forgotten</p> : <Said text={turn.text} isPrompt={turn.role === "user"} />}
    </div>
  );
}

/** Characters of a reply and of a prompt that are shown before "Show all". What is pasted into a prompt can be long. */
const LONG = 4000;
const LONG_PROMPT = 1200;

function Said({ text, isPrompt }: { text: string; isPrompt: boolean }) {
  const most = isPrompt ? LONG_PROMPT : LONG;
  const [whole, setWhole] = useState(text.length <= most * 1.2);
  const shown = whole ? text : `${text.slice(0, most)} …`;
  return (
    <>
      {isPrompt ? (
        <div class="prompt-text">
          <Text text={shown} />
        </div>
      ) : (
        <Markdown text={shown} />
      )}
      {!whole && (
        <Button kind="quiet" onClick={() => setWhole(true)}>
          Show all
        </Button>
      )}
    </>
  );
}

function Tools({ uses }: { uses: ToolStep[] }) {
  const [open, setOpen] = useState(false);
  const failed = uses.filter((use) => use.error !== null).length;
  return (
    <details class="uses" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {plural(uses.length, "tool use")}: <span class="quiet">{names(uses)}</span>
        {failed > 0 && (
          <>
            {" "}
            <Badge tone="warn">{failed} failed</Badge>
          </>
        )}
      </summary>
      {open && (
        <ul>
          {uses.map((use) => (
            <li key={use.id}>
              <Tool use={use} />
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}

/** The tools of a run, the most used first: Read ×3, Bash. */
function names(uses: ToolStep[]): string {
  const counts = new Map<string, number>();
  for (const use of uses) counts.set(use.tool_name ?? "tool", (counts.get(use.tool_name ?? "tool") ?? 0) + 1);
  const sorted = [...counts].sort((one, other) => other[1] - one[1]);
  return sorted.map(([name, times]) => (times > 1 ? `${name} ×${times}` : name)).join(", ");
}

function Tool({ use }: { use: ToolStep }) {
  const [whole, setWhole] = useState<ToolUse>();
  const [error, setError] = useState<ApiError>();
  const load = () => {
    if (!whole) get<ToolUse>(`/api/events/${use.id}`).then(setWhole, (problem) => setError(toApiError(problem)));
  };
  return (
    <details class="use" onToggle={(event) => event.currentTarget.open && load()}>
      <summary>
        <strong>{use.tool_name ?? "tool"}</strong> <code><Text text={use.used_for} /></code>
        {use.error !== null && <Badge tone="warn">failed</Badge>}
      </summary>
      {whole ? <ToolTexts use={whole} /> : <State loading={!error} error={error} />}
    </details>
  );
}

function ToolTexts({ use }: { use: ToolUse }) {
  const parts: [string, string | null][] = [
    ["Input", use.tool_input],
    ["Output", use.tool_response],
    ["Error", use.error],
  ];
  return (
    <>
      {parts.map(
        ([label, text]) =>
          text && (
            <div key={label}>
              <p class="quiet">{label}</p>
              <pre tabIndex={0}>
                <Text text={text} />
              </pre>
            </div>
          ),
      )}
    </>
  );
}
