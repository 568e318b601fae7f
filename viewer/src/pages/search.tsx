// Search as you type, over everything that is remembered.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { address, href, setParams } from "../address";
import { type PagedList, get, paged, useLoad } from "../api";
import { Origin } from "../components/card";
import { Button, Card, Filters, Rows, State, Text, Time, useFilters } from "../components";
import type { FilterName } from "../components/filters";
import { leaving } from "../curate";
import { useEvents } from "../stream";
import { plain } from "../text";
import type { Found, Hit, Kind } from "../types";

const FILTERS: readonly FilterName[] = ["project", "branch", "kind", "type", "agent", "since", "file"];
const KINDS = ["observations", "summaries", "prompts", "turns", "sessions"];
/** A query that is the name of a file. */
const FILE_NAME = /^\s*[^\s:]+\.[a-z]\w{0,5}\s*$/i;
/** Milliseconds after the last key until a search starts. */
const PAUSE_MS = 120;

/** Whether there is something to search for. A branch only says what comes first. */
const isSearch = ({ branch: _, ...params }: Record<string, string>) => Object.values(params).some(Boolean);

/** Searches, and keeps the last results while the next ones are on their way. */
function useSearch(params: Record<string, string>): { list: PagedList<Hit, Found>; isLoading: boolean } {
  const isAsked = isSearch(params);
  const list = useMemo(
    () => paged<Hit, Found>("/api/search", { ...params, kind: params.kind || "all", explain: "true" }, 30),
    [JSON.stringify(params)],
  );
  const shown = useRef(list);
  const isLoading = isAsked && !list.page.value && !list.error.value;
  if (!isLoading) shown.current = list;
  useEffect(() => {
    const timer = setTimeout(() => isAsked && void list.load(), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      list.close();
    };
  }, [list]);
  useEvents(
    () => false,
    () => list.error.value && list.load(),
  );
  return { list: shown.current, isLoading };
}

export default function Search() {
  const input = useRef<HTMLInputElement>(null);
  const query = address.value.params.get("q") ?? "";
  const filters = useFilters(FILTERS);
  const { list, isLoading } = useSearch({ query, ...filters });
  const { next, note } = list.page.value ?? {};
  const error = list.error.value;
  useEffect(() => input.current?.focus(), []);
  const isAsked = isSearch({ query, ...filters });
  const shown = list.items.value.filter((hit) => !(hit.kind === "observation" && leaving.value.has(hit.id)));
  return (
    <>
      <header>
        <h1 class="for-readers">Search</h1>
        <input
          ref={input}
          id="query"
          type="search"
          role="searchbox"
          aria-label="Search"
          placeholder="What was decided, learned, changed …"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={(event) => setParams({ q: event.currentTarget.value })}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
      </header>
      <Filters names={FILTERS} options={{ kind: KINDS }} labels={{ branch: "branch first" }} />
      {FILE_NAME.test(query) && !filters.file && <WhoChanged file={query.trim()} />}
      {isAsked && (
        <>
          <p class="count quiet" role="status">
            {!isLoading && !error && count(shown.length, !!next, query ? "best first" : "newest first")}
          </p>
          <Rows
            label="Results"
            items={shown}
            name={(hit) => `${hit.kind} ${hit.id}`}
            render={(hit) => <Result hit={hit} />}
            onEnd={() => void list.more()}
            onOpen={(hit) => {
              location.hash = hitHref(hit);
            }}
            estimate={96}
          />
        </>
      )}
      <State
        loading={isLoading && !shown.length}
        error={error}
        retry={() => void (shown.length ? list.more() : list.load())}
        empty={shown.length ? null : isAsked ? <Nothing query={query} note={note} isFiltered={!!query && isSearch(filters)} /> : <Hints />}
      />
    </>
  );
}

/** Offers the sessions that changed a file, if one has this name. */
function WhoChanged({ file }: { file: string }) {
  const { data } = useLoad((abort) => get<Found>("/api/search", { file, kind: "sessions", limit: 1 }, abort), [file]);
  if (!data?.items.length) return null;
  return (
    <p>
      <Button onClick={() => setParams({ q: "", file, kind: "sessions" })}>Which sessions changed {file}?</Button>
    </p>
  );
}

function count(number: number, hasMore: boolean, order: string): string {
  if (!number) return "";
  return `${number}${hasMore ? " or more" : ""} ${number === 1 ? "result" : "results"}, ${order}`;
}

/** Where a result is shown. A turn is a place in its session. */
function hitHref(hit: Hit): string {
  if (hit.kind === "observation") return href(`/o/${hit.id}`);
  if (hit.kind === "summary" || hit.kind === "prompt") return href(`/${hit.kind}/${hit.id}`);
  return href(`/s/${hit.session_id}`, { prompt: hit.prompt_number, turn: hit.number });
}

const MEMORY: Kind[] = ["observation", "summary", "prompt"];

function Result({ hit }: { hit: Hit }) {
  const why = hit.reasons?.length ? <span class="why">{hit.reasons.join(" · ")}</span> : null;
  const kind = MEMORY.find((one) => one === hit.kind);
  const { created_at, title, snippet, terms } = hit;
  if (kind) {
    const { id, session_id, project, agent, type, prompt_number } = hit;
    const entry = { kind, id, session_id, project, agent, type, prompt_number, created_at, title, text: snippet };
    return (
      <Card entry={{ ...entry, pinned: !!hit.pinned_at, superseded_by: hit.superseded_by ?? null }} marks={terms}>
        {why}
      </Card>
    );
  }
  const [head, excerpt] = [plain(title || snippet), plain(snippet)];
  return (
    <div class="card">
      <span class="label">{hit.kind === "turn" ? (hit.role ?? "turn") : hit.kind}</span>
      <div class="body">
        <a class="title said-title" href={hitHref(hit)}>
          <Text text={head} marks={terms} />
        </a>
        {!excerpt.startsWith(head.replace(/…$/, "")) && (
          <p class="excerpt">
            <Text text={excerpt} marks={terms} />
          </p>
        )}
        <div class="meta">
          <Time at={created_at} />
          <Origin entry={hit} />
          {why}
        </div>
      </div>
    </div>
  );
}

function Nothing({ query, note, isFiltered }: { query: string; note: string | undefined; isFiltered: boolean }) {
  return (
    <>
      <h2>{query ? `Nothing is about “${query}”` : "Nothing matches these filters"}</h2>
      <p>{note || "Try other or fewer words."}</p>
      {isFiltered && (
        <Button onClick={() => setParams(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Search without filters</Button>
      )}
    </>
  );
}

function Hints() {
  const examples: [string, Record<string, string>][] = [
    ["decisions", { type: "decision" }],
    ["bugs that were fixed", { type: "bugfix" }],
    ["what you asked", { kind: "prompts" }],
  ];
  return (
    <>
      <p>Words and meaning both count. The name of a file in “file” shows what is known about it, and which session changed it.</p>
      <p class="buttons">
        {examples.map(([label, params]) => (
          <Button key={label} onClick={() => setParams(params)}>
            {label}
          </Button>
        ))}
        <a class="button" href={href("/hidden")}>
          what you hid
        </a>
      </p>
    </>
  );
}
