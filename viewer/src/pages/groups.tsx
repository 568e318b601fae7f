// The list of groups: agents in sandboxes, each with its own conversations and memory.
import { useState } from "preact/hooks";
import { go, href } from "../address";
import { get, post, useLoad } from "../api";
import { Button, Confirm, State, Time } from "../components";
import { isOfSession, useEvents } from "../stream";
import { plural } from "../text";
import type { GroupRow, Page } from "../types";

export default function Groups() {
  const load = useLoad<Page<GroupRow>>((abort) => get("/api/groups", {}, abort), []);
  useEvents(isOfSession, load.reload);
  const [asks, setAsks] = useState(false);
  return (
    <>
      <header>
        <h1>Groups</h1>
        <span class="quiet">Agents in sandboxes, each with its own conversations and memory</span>
        <span class="push">
          <Button onClick={() => setAsks(true)}>New group</Button>
        </span>
      </header>
      {!load.data && <State loading={load.loading} error={load.error} retry={load.reload} />}
      {load.data?.items.map((group) => (
        <GroupLine key={group.name} group={group} />
      ))}
      {asks && <NewGroup close={() => setAsks(false)} />}
    </>
  );
}

function GroupLine({ group }: { group: GroupRow }) {
  return (
    <div class="card">
      <span class="label">{group.is_running ? <span class="ok">working</span> : group.session_id ? "active" : ""}</span>
      <div class="body">
        <a class="title" href={href(`/g/${encodeURIComponent(group.name)}`)}>
          {group.name}
        </a>
        <p class="meta">
          <span>
            {group.session_id ? (
              <>
                active since <Time at={group.updated_at} />
              </>
            ) : (
              "no active session"
            )}
          </span>
          <span>{plural(group.history, "earlier session")}</span>
          <span>{plural(group.archives, "archive")}</span>
        </p>
      </div>
    </div>
  );
}

function NewGroup({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const create = async () => {
    await post("/api/groups", { name: name.trim() });
    go(`/g/${encodeURIComponent(name.trim())}`);
  };
  return (
    <Confirm title="New group" onClose={close} confirm="Create" onConfirm={create} disabled={!name.trim()}>
      <label class="field">
        <span>Name</span>
        <input value={name} maxLength={64} placeholder="family" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}
