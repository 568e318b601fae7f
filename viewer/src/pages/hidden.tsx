// What was taken out of context and search, and can be brought back.
import { address, href } from "../address";
import { get, post, useLoad } from "../api";
import { Button, Card, State, Text, Time } from "../components";
import { tried } from "../components/toast";
import { show } from "../curate";
import { useEvents } from "../stream";
import type { HiddenRows } from "../types";

/** Rows of each kind that are listed, at most. */
const LIMIT = 200;

export default function Hidden() {
  const project = address.value.params.get("project") ?? "";
  const { data, error, loading, reload } = useLoad(
    (abort) => get<HiddenRows>("/api/hidden", { project, limit: LIMIT }, abort),
    [project],
  );
  useEvents((event) => /^(changed|gone)/.test(event), reload);
  const isEmpty = data && !data.observations.length && !data.sessions.length;
  const showSession = (id: number) => tried(() => post("/api/hide", { sessions: [id], undo: true })).then(reload);
  return (
    <>
      <header>
        <h1>Hidden</h1>
        <span class="quiet">No context and no search has these. They are kept, the last hidden first.</span>
      </header>
      <State
        loading={loading && !data}
        error={error}
        retry={reload}
        empty={isEmpty ? <p>Nothing is hidden. “Hide” takes something wrong out of context and search.</p> : null}
      />
      {data?.observations.map((row) => (
        <Card key={row.id} entry={{ ...row, kind: "observation", branch: row.branch ?? null, pinned: !!row.pinned_at, text: row.narrative }}>
          <Button kind="quiet" onClick={() => void show([row.id]).then(reload)}>
            Show again
          </Button>
        </Card>
      ))}
      {data?.sessions.map((row) => (
        <div class="card" key={`session ${row.id}`}>
          <span class="label">session</span>
          <div class="body">
            <a class="title" href={href(`/s/${row.id}`)}>
              <Text text={row.title} />
            </a>
            <div class="meta">
              <Time at={row.last_event_at} />
              <span>{row.project}</span>
              <Button kind="quiet" onClick={() => void showSession(row.id)}>
                Show again
              </Button>
            </div>
          </div>
        </div>
      ))}
    </>
  );
}
