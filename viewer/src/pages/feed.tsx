// The feed: what is remembered, the newest first, as it happens.
import { useEffect, useMemo } from "preact/hooks";
import { entryHref, go, href } from "../address";
import { Badge, Button, Card, Filters, Rows, State, useFilters } from "../components";
import { Actions, SelectionBar, clearSelection, select, selected } from "../components/actions";
import { Origin } from "../components/card";
import type { FilterName } from "../components/filters";
import { dayOf } from "../components/time";
import { leaving, pin } from "../curate";
import { type Feed as FeedOf, entryKey, openFeed } from "../feed";
import { health } from "../health";
import { plural } from "../text";
import type { Entry } from "../types";

const FILTERS: readonly FilterName[] = ["project", "branch", "agent", "kind", "type", "group"];

/** Pixels from the top within which new entries are shown at once. */
const TOP = 120;

export default function Feed() {
  const filters = useFilters(FILTERS);
  const feed = useKeptFeed(filters);
  useEffect(() => clearSelection, []);
  const entries = feed.items.value.filter((one) => !(one.kind === "observation" && leaving.value.has(one.id)));
  const isFiltered = Object.values(filters).some(Boolean);
  const showNewest = () => {
    scrollTo(0, 0);
    void feed.refresh();
  };
  return (
    <>
      <header>
        <h1>Feed</h1>
        <Queue />
      </header>
      <Filters names={FILTERS} />
      <p class="fresh" role="status">
        {feed.fresh.value > 0 && (
          <Button kind="main" onClick={showNewest}>
            ↑ {feed.fresh.value >= 50 ? "50 or more" : feed.fresh.value} new
          </Button>
        )}
      </p>
      <Rows
        label="Feed"
        items={entries}
        name={entryKey}
        render={(entry, index) => <Row entry={entry} before={entries[index - 1]} />}
        onEnd={feed.more}
        onOpen={open}
        keys={{
          x: (entry) => entry.kind === "observation" && select(entry.id),
          p: (entry) => entry.kind === "observation" && pin(entry.id, !entry.pinned),
          e: (entry) => entry.kind === "observation" && go(`/o/${entry.id}`, { edit: 1 }),
        }}
      />
      <State
        loading={!feed.page.value}
        error={feed.error.value}
        retry={() => void (entries.length ? feed.more() : feed.refresh())}
        empty={entries.length ? null : isFiltered ? <NoMatch /> : <NothingYet />}
      />
      <SelectionBar />
    </>
  );
}

/** The feed that was shown last, and how far down. Whoever comes back finds it as it was. */
const kept: { key: string; feed: FeedOf | null; scroll: number } = { key: "", feed: null, scroll: 0 };

function useKeptFeed(filters: Record<string, string>): FeedOf {
  const key = JSON.stringify(filters);
  const feed = useMemo(() => {
    if (kept.feed && kept.key === key) return kept.feed;
    kept.feed?.close();
    const opened = openFeed(filters, () => kept.scroll < TOP);
    Object.assign(kept, { key, scroll: 0, feed: opened });
    return opened;
  }, [key]);
  useEffect(() => {
    const scroll = kept.scroll;
    requestAnimationFrame(() => scrollTo(0, scroll));
    const follow = () => {
      kept.scroll = scrollY;
      if (scrollY < TOP && feed.fresh.value) void feed.refresh();
    };
    addEventListener("scroll", follow);
    return () => removeEventListener("scroll", follow);
  }, [feed]);
  return feed;
}

function open(entry: Entry): void {
  location.hash = entryHref(entry.kind, entry.id);
}

/** A row, below the name of its day and its session if they differ from those of the row before. */
function Row({ entry, before }: { entry: Entry; before: Entry | undefined }) {
  const day = dayOf(entry.created_at);
  const isObservation = entry.kind === "observation";
  const isNewDay = day !== (before && dayOf(before.created_at));
  return (
    <>
      {isNewDay && <h2 class="day">{day}</h2>}
      {(isNewDay || before?.session_id !== entry.session_id) && (
        <p class="origin meta">
          <Origin entry={entry} />
        </p>
      )}
      <Card entry={entry} isPlain isSelected={isObservation && selected.value.has(entry.id)}>
        {isObservation && (
          <>
            <Actions id={entry.id} pinned={entry.pinned} />
            <input
              type="checkbox"
              aria-label={`Select #${entry.id}`}
              checked={selected.value.has(entry.id)}
              onChange={() => select(entry.id)}
            />
          </>
        )}
      </Card>
    </>
  );
}

/** What is not remembered yet. */
function Queue() {
  const queue = health.value?.queue;
  if (!queue) return null;
  const { leased, queued, dead } = queue;
  return (
    <p class="queue" role="status">
      {leased > 0 && <span class="busy">{plural(leased, "event")} being observed</span>}
      {queued > 0 && <span>{plural(queued, "event")} queued</span>}
      {dead > 0 && (
        <a class="warn" href={href("/health")}>
          {plural(dead, "event")} set aside
        </a>
      )}
    </p>
  );
}

function NoMatch() {
  return (
    <>
      <h2>Nothing matches these filters</h2>
      <Button onClick={() => go("/")}>Show everything</Button>
    </>
  );
}

function NothingYet() {
  return (
    <>
      <h2>Nothing is remembered yet</h2>
      <p>Work with your agent as usual. Prompts appear here at once, observations when a round ends.</p>
      <p>
        <Badge>Tip</Badge> <code>backstory import claude-code ~/.claude/projects</code> brings what happened before.
      </p>
    </>
  );
}
