// The list of sessions: the last used first, or those that words describe best.
import { useEffect, useMemo, useState } from "preact/hooks";
import { address, go, href, setParam } from "../address";
import { get, paged, useLoad } from "../api";
import { Filters, Rows, State, Text, Time } from "../components";
import type { FilterName } from "../components/filters";
import { useKept } from "../kept";
import { isOfSession, useEvents } from "../stream";
import { plain, plural } from "../text";
import type { Page, SessionRow } from "../types";

/** Milliseconds after the last key until words are searched. */
const TYPING_MS = 150;
/** Pixels from the top within which the list is kept up to date. */
const NEAR_TOP = 600;
const FILTERS = ["project", "branch", "agent", "status", "tag", "group", "since", "until"] as const;
/** Those that the search by words has, too. */
const SEARCHABLE = ["project", "agent", "tag", "group", "since", "until"] as const;

/** The filters of the address as the worker takes them. A group is a project of its own. */
function filters(names: readonly FilterName[], params: URLSearchParams): Record<string, string> {
  const { group, ...given } = Object.fromEntries(names.map((name) => [name, params.get(name) ?? ""]));
  return { ...given, project: group ? `group:${group}` : (given.project ?? "") };
}

export default function Sessions() {
  const params = address.value.params;
  const words = params.get("words") ?? "";
  return (
    <>
      <header>
        <h1>Sessions</h1>
      </header>
      <WordsField words={words} />
      <Filters names={words ? SEARCHABLE : FILTERS} />
      {words ? <Found words={words} params={params} /> : <Listed params={params} key={params.toString()} />}
    </>
  );
}

function WordsField({ words }: { words: string }) {
  const [typed, setTyped] = useState(words);
  useEffect(() => setTyped(words), [words]);
  useEffect(() => {
    const timer = setTimeout(() => typed !== words && setParam("words", typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search"
      class="words"
      value={typed}
      placeholder="What do you remember of it?"
      aria-label="Find sessions by what you remember"
      onInput={(event) => setTyped(event.currentTarget.value)}
    />
  );
}

function Listed({ params }: { params: URLSearchParams }) {
  const list = useMemo(() => paged<SessionRow>("/api/sessions", filters(FILTERS, params)), [params.toString()]);
  useEffect(() => {
    void list.load();
    return list.close;
  }, [list]);
  // Somebody who reads further down keeps what is there.
  useEvents(
    (event, data) => isOfSession(event, data) || event === "new_prompt",
    () => list.load(() => scrollY < NEAR_TOP),
  );
  const items = list.items.value;
  return (
    <>
      {items.length > 0 && <SessionRows items={items} onEnd={() => void list.more()} />}
      <State
        loading={!list.page.value}
        error={list.error.value}
        empty={items.length ? null : <Nothing params={params} />}
        retry={() => void (items.length ? list.more() : list.load())}
      />
    </>
  );
}

function Found({ words, params }: { words: string; params: URLSearchParams }) {
  const load = useLoad<Page<SessionRow>>(
    (signal) => get("/api/sessions/search", { ...filters(SEARCHABLE, params), words, limit: 50 }, signal),
    [words, params.toString()],
  );
  const items = useKept(load.data)?.items ?? [];
  if (!items.length) return <State loading={load.loading} error={load.error} empty={<p>No session was found. Try fewer or other words.</p>} retry={load.reload} />;
  return <SessionRows items={items} />;
}

function SessionRows({ items, onEnd }: { items: SessionRow[]; onEnd?: () => void }) {
  return (
    <Rows
      items={items}
      name={(row) => String(row.id)}
      render={(row) => <SessionLine row={row} />}
      onOpen={(row) => go(`/s/${row.id}`)}
      onEnd={onEnd}
      estimate={70}
      label="Sessions"
    />
  );
}

function Nothing({ params }: { params: URLSearchParams }) {
  if ([...params.values()].some(Boolean)) return <p>No session matches these filters.</p>;
  return <p>There are no sessions yet. Work with your agent, and its conversations appear here.</p>;
}

/** A session as a line of a list. */
function SessionLine({ row }: { row: SessionRow }) {
  const hasBranch = row.git_branch && row.git_branch !== "HEAD";
  return (
    <div class="card">
      <span class="label quiet">
        <Time at={row.last_event_at} as="date" />
      </span>
      <div class="body">
        <a class="title" href={href(`/s/${row.id}`)}>
          <Text text={row.title} />
        </a>
        {row.snippet && (
          <p class="excerpt">
            <Text text={plain(row.snippet)} />
          </p>
        )}
        <p class="meta">
          {row.status !== "completed" && <Status status={row.status} />}
          <Time at={row.last_event_at} as="clock" />
          <span>{row.project}</span>
          {hasBranch && <span class="branch">{row.git_branch}</span>}
          <span>{row.agent}</span>
          {row.prompt_counter > 0 && <span>{plural(row.prompt_counter, "prompt")}</span>}
          {row.observation_count !== undefined && <span>{plural(row.observation_count, "observation")}</span>}
          {row.tags.map((tag) => (
            <a key={tag} href={href("/sessions", { tag })}>
              #{tag}
            </a>
          ))}
          {row.hidden_at && <span>hidden</span>}
        </p>
      </div>
    </div>
  );
}

/** The state of a session. One that is active stands out. */
export function Status({ status }: { status: string }) {
  return <span class={status === "active" ? "ok" : ""}>{status}</span>;
}
