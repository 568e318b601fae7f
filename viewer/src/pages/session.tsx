// A session: what it is, the conversation by rounds, and what was remembered of each round beside it.
import { useState } from "preact/hooks";
import { address, go, href } from "../address";
import { get, observationsOf, patch, post, useLoad } from "../api";
import { Button, Confirm, Copy, Said, State, Text, Time, toast, tried } from "../components";
import { download } from "../download";
import { money } from "../format";
import { isOfSession, useEvents } from "../stream";
import { plural, short } from "../text";
import type { SessionUsage, ToldContext, WholeSession } from "../types";
import { Conversation } from "./conversation";
import { Status } from "./sessions";

/** Characters of a token, about. */
const CHARACTERS = 4;

export default function Session() {
  const { id, params } = address.value;
  const load = useLoad(async (abort) => {
    const found = await get<WholeSession>(`/api/sessions/${encodeURIComponent(id)}`, {}, abort);
    return { ...found, observations: await observationsOf(found.id, abort) };
  }, [id]);
  const session = load.data;
  const from = Number(params.get("prompt") ?? 0);
  useEvents(
    (event, data) => !!session && (data.session_id ?? (isOfSession(event, data) && data.id)) === session.id,
    load.reload,
  );
  if (!session) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  return (
    <>
      <Head session={session} reload={load.reload} />
      <Details session={session} />
      <Conversation key={from} session={session} from={from} />
    </>
  );
}

interface Part {
  session: WholeSession;
  reload: () => void;
}

function Head({ session, reload }: Part) {
  const hasBranch = session.git_branch && session.git_branch !== "HEAD";
  return (
    <div class="head">
      <p class="crumbs">
        <a href={href("/sessions")}>Sessions</a> / {session.id}
      </p>
      <Title session={session} reload={reload} />
      <p class="meta">
        <Status status={session.status} />
        <a href={href("/sessions", { project: session.project })}>{session.project || "no project"}</a>
        {hasBranch && <span class="branch">{session.git_branch}</span>}
        <span>{session.agent}</span>
        <span>
          <Time at={session.created_at} /> to <Time at={session.last_event_at} />
        </span>
        {session.hidden_at && <span>hidden from context and search</span>}
      </p>
      <Links session={session} />
      <Tags session={session} reload={reload} />
      <Actions session={session} reload={reload} />
    </div>
  );
}

/** Changes title or tags. Returns whether it worked. */
async function change(session: WholeSession, body: object, reload: () => void): Promise<boolean> {
  const isChanged = (await tried(() => patch(`/api/sessions/${session.id}`, body))) !== null;
  if (isChanged) reload();
  return isChanged;
}

function Title({ session, reload }: Part) {
  const [typed, setTyped] = useState<string | null>(null);
  if (typed === null) {
    return (
      <h1>
        <Text text={session.title} />{" "}
        <Button kind="quiet" onClick={() => setTyped(session.title)} label="Edit the title">
          Edit
        </Button>
      </h1>
    );
  }
  const save = async (event: Event) => {
    event.preventDefault();
    if (await change(session, { title: typed.trim() }, reload)) setTyped(null);
  };
  return (
    <form class="title-form" onSubmit={save}>
      <input
        ref={(field) => field?.focus()}
        value={typed}
        maxLength={200}
        aria-label="Title"
        placeholder="Empty: the automatic title"
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && setTyped(null)}
      />
      <Button kind="main" type="submit">
        Save
      </Button>
      <Button onClick={() => setTyped(null)}>Cancel</Button>
    </form>
  );
}

function Tags({ session, reload }: Part) {
  const [typed, setTyped] = useState("");
  const add = async (event: Event) => {
    event.preventDefault();
    const tag = typed.trim();
    if (tag && (await change(session, { add_tags: [tag] }, reload))) setTyped("");
  };
  return (
    <form class="tags" onSubmit={add}>
      {session.tags.map((tag) => (
        <span class="tag" key={tag}>
          <a href={href("/sessions", { tag })}>#{tag}</a>
          <Button kind="quiet" label={`Remove the tag ${tag}`} onClick={() => void change(session, { remove_tags: [tag] }, reload)}>
            ✕
          </Button>
        </span>
      ))}
      <input
        value={typed}
        maxLength={50}
        placeholder="Add a tag"
        aria-label="Add a tag"
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}

/** The sessions that this one comes from or led to. */
function Links({ session }: { session: WholeSession }) {
  return (
    <>
      {session.links.map((link) => (
        <p class="link" key={`${link.relation}${link.id}`}>
          {link.relation}{" "}
          <a href={href(`/s/${link.id}`)}>
            <Text text={link.title} />
          </a>{" "}
          <span class="quiet">
            session {link.id}, <Time at={link.at} />
          </span>
        </p>
      ))}
    </>
  );
}

function Actions({ session, reload }: Part) {
  const [asks, setAsks] = useState(false);
  const hide = async (undo: boolean) => {
    if (!(await tried(() => post("/api/hide", { sessions: [session.id], undo })))) return;
    reload();
    if (!undo) toast("Hidden from context and search.", { undo: () => void hide(true) });
  };
  const save = (format: "markdown" | "json") => {
    const name = `session-${session.id}.${format === "json" ? "json" : "md"}`;
    return tried(() => download(`/api/sessions/${session.id}/export`, { format }, name));
  };
  return (
    <div class="buttons">
      <Copy text={`backstory resume ${session.id}`} label="Copy resume command" />
      <Button onClick={() => void save("markdown")}>Export Markdown</Button>
      <Button onClick={() => void save("json")}>Export JSON</Button>
      <Button onClick={() => void hide(Boolean(session.hidden_at))}>{session.hidden_at ? "Show again" : "Hide"}</Button>
      <Button kind="danger" onClick={() => setAsks(true)}>
        Forget …
      </Button>
      {asks && <Forget session={session} close={() => setAsks(false)} />}
    </div>
  );
}

/** Forgetting a whole session is final, so it is asked for, with what would go. */
function Forget({ session, close }: { session: WholeSession; close: () => void }) {
  const body = { sessions: [session.id] };
  const dry = useLoad<Record<string, number>>(() => post("/api/forget", { ...body, dry_run: true }), [session.id]);
  const forget = async () => {
    await post("/api/forget", body);
    toast(`Session ${session.id} is forgotten.`);
    go("/sessions");
  };
  const gone = dry.data;
  return (
    <Confirm title="Forget this session?" onClose={close} confirm="Forget for good" kind="danger" onConfirm={forget}>
      <p>All of it goes, and nothing brings it back. The agent keeps its own transcript.</p>
      <p class="quiet">
        {dry.error?.error}
        {gone
          ? `${plural(gone.turns ?? 0, "turn")}, ${plural(gone.events ?? 0, "event")}, ${plural(session.observations.length, "observation")}, ${plural(gone.summaries ?? 0, "summary", "summaries")}`
          : !dry.error && "Counting what goes …"}
      </p>
    </Confirm>
  );
}

function Details({ session }: { session: WholeSession }) {
  const { usage, counts, told } = session;
  const said = Math.round(counts.characters / CHARACTERS);
  return (
    <details class="details">
      <summary>
        {plural(session.prompt_counter, "prompt")}, {plural(counts.turns, "turn")}, {plural(counts.tools, "tool use")},{" "}
        {plural(session.observations.length, "observation")}
        {told.length > 0 && `, told about ${short(told.reduce((sum, one) => sum + one.tokens, 0))} tokens`}
      </summary>
      <dl class="facts">
        <dt>Resume</dt>
        <dd>
          <code>backstory resume {session.id}</code>
        </dd>
        <dt>Directory</dt>
        <dd>{session.cwd ? <code>{session.cwd}</code> : "unknown"}</dd>
        <dt>Id of the agent</dt>
        <dd>
          <code>{session.content_session_id}</code>
        </dd>
        <dt>Tokens</dt>
        <dd>{usage ? spent(usage) : `about ${short(said)} in what was said; what models used is not known`}</dd>
        {usage && (
          <>
            <dt>Models</dt>
            <dd>{usage.models.map((one) => one.model).join(", ")}</dd>
          </>
        )}
        <dt>Cost</dt>
        <dd>{usage ? cost(usage) : "not known"}</dd>
        <dt>Told</dt>
        <dd>{told.length ? <Told told={told} /> : "nothing on record"}</dd>
        {session.segments.length > 1 && (
          <>
            <dt>Compactions</dt>
            <dd>{session.segments.length - 1}</dd>
          </>
        )}
        <dt>States</dt>
        <dd>
          <ol class="moves">
            {session.moves.map((move, index) => (
              <li key={index}>
                <Time at={move.at} /> <span>{move.to_status}</span> <span class="quiet">{move.cause}</span>
              </li>
            ))}
          </ol>
        </dd>
      </dl>
    </details>
  );
}

function spent(usage: SessionUsage): string {
  const cached = usage.cached_tokens ? ` (${short(usage.cached_tokens)} from the cache)` : "";
  return `${short(usage.input_tokens)} read${cached}, ${short(usage.output_tokens)} written`;
}

function cost({ cost_micros, cost_source, models_without_price }: SessionUsage): string {
  const rest = models_without_price.length ? `no price is known for ${models_without_price.join(", ")}` : "";
  if (cost_micros === null) return rest ? `not known: ${rest}` : "not known";
  if (cost_source === "agent") return `${money(cost_micros)}, as the agent counted it`;
  return `about ${money(cost_micros)} at list prices${rest && `; ${rest}`}`;
}

/** What the agent was told, when, and of which observations. */
function Told({ told }: { told: ToldContext[] }) {
  return (
    <ol class="moves">
      {told.map((one, index) => (
        <li key={index}>
          <Time at={one.at} /> <span>{one.cause === "prompt" ? "with a prompt" : `at its start (${one.cause})`}</span>{" "}
          <span class="quiet">
            about {one.tokens.toLocaleString("en")} tokens, {plural(one.observations.length + one.gone, "observation")}
            {one.gone > 0 && `, ${one.gone} hidden or forgotten since`}
          </span>
          {one.observations.length > 0 && (
            <ul>
              {one.observations.map((row) => (
                <li key={row.id}>
                  <a href={href(`/o/${row.id}`)}>
                    #{row.id} <Said mark={row.mark} /><Text text={row.title} />
                  </a>
                </li>
              ))}
            </ul>
          )}
        </li>
      ))}
    </ol>
  );
}
