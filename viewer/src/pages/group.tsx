// A group: its active session, the sessions it had, and its archives.
import { useState } from "preact/hooks";
import { address, href } from "../address";
import { get, post, useLoad } from "../api";
import { Badge, Button, Confirm, Copy, Markdown, State, Text, Time, toast, tried } from "../components";
import { isOfSession, useEvents } from "../stream";
import type { Archive, HistoryEntry, WholeGroup } from "../types";

/** Why an archive was written. */
const CAUSES: Record<string, string> = {
  clear: "when it was cleared",
  resume: "when another one was resumed",
  compact: "before it was compacted",
  expire: "when it expired",
  replaced: "when another one replaced it",
  asked: "because somebody asked for it",
};

export default function Group() {
  const name = address.value.id;
  const path = `/api/groups/${encodeURIComponent(name)}`;
  const load = useLoad<WholeGroup>((abort) => get(path, {}, abort), [name]);
  useEvents(isOfSession, load.reload);
  const group = load.data;
  if (!group) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  const part = { group, path, reload: load.reload };
  return (
    <>
      <div class="head">
        <p class="crumbs">
          <a href={href("/groups")}>Groups</a> / {group.name}
        </p>
        <h1>
          {group.name} {group.is_running && <Badge tone="ok">working</Badge>}
        </h1>
        <p class="meta">
          <a href={href("/", { group: group.name })}>Its memory</a>
          <a href={href("/sessions", { group: group.name })}>Its sessions</a>
          <span>
            <code>{group.folder}</code>
          </span>
        </p>
      </div>
      <Active {...part} />
      <History {...part} />
      <Archives group={group} path={path} />
    </>
  );
}

interface Part {
  group: WholeGroup;
  path: string;
  reload: () => void;
}

function Active({ group, path, reload }: Part) {
  const [asks, setAsks] = useState(false);
  const archive = async () => {
    const done = await tried(() => post<{ file: string | null }>(`${path}/archive`));
    if (!done) return;
    toast(done.file ? "Archived. The session goes on." : "There is nothing new to archive.");
    reload();
  };
  return (
    <section>
      <h2>Active session</h2>
      {group.session_id ? (
        <div class="line">
          <a href={href(`/s/${encodeURIComponent(group.session_id)}`)}>
            <code>{group.session_id}</code>
          </a>
          <div class="buttons">
            <Copy text={`backstory groups chat ${group.name}`} label="Copy chat command" />
            <Button onClick={() => void archive()}>Archive now</Button>
            <Button onClick={() => setAsks(true)}>Clear …</Button>
          </div>
        </div>
      ) : (
        <p class="quiet">None. The next message starts one.</p>
      )}
      {asks && <Clear group={group} path={path} reload={reload} close={() => setAsks(false)} />}
    </section>
  );
}

function Clear({ group, path, reload, close }: Part & { close: () => void }) {
  const [name, setName] = useState("");
  const clear = async () => {
    await post(`${path}/clear`, { name, generation: group.generation });
    close();
    toast("Cleared. The next message starts a new session.");
    reload();
  };
  return (
    <Confirm title={`Clear ${group.name}?`} onClose={close} confirm="Clear" onConfirm={clear}>
      <p>The session is archived and goes into the history. The next message starts a new one.</p>
      {group.is_running && <p class="warn">Its agent is working. It is ended.</p>}
      <NameField label="Name in the history" value={name} change={setName} />
    </Confirm>
  );
}

function NameField({ label, value, change }: { label: string; value: string; change: (value: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        value={value}
        maxLength={200}
        placeholder="Empty: made from the conversation"
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

function History({ group, path, reload }: Part) {
  const [chosen, setChosen] = useState<HistoryEntry>();
  return (
    <section>
      <h2>History</h2>
      {!group.history.length && <p class="quiet">Empty. A session comes here when the group is cleared.</p>}
      {group.history.map((entry) => (
        <div class="line" key={entry.id}>
          <div>
            <a href={href(`/s/${encodeURIComponent(entry.session_id)}`)}>
              <Text text={entry.name} />
            </a>
            <p class="meta">
              <span>
                <Time at={entry.created_at} /> to <Time at={entry.archived_at} />
              </span>
              {!entry.transcript_available && <span>its transcript is gone</span>}
            </p>
          </div>
          <Button disabled={!entry.transcript_available} onClick={() => setChosen(entry)} label={`Resume ${entry.name}`}>
            Resume …
          </Button>
        </div>
      ))}
      {chosen && <Resume entry={chosen} group={group} path={path} reload={reload} close={() => setChosen(undefined)} />}
    </section>
  );
}

function Resume({ entry, group, path, reload, close }: Part & { entry: HistoryEntry; close: () => void }) {
  const [name, setName] = useState("");
  const resume = async () => {
    await post(`${path}/resume`, { id: entry.id, save_current_as: name, generation: group.generation });
    close();
    toast("Resumed. The next message continues it.");
    reload();
  };
  return (
    <Confirm title={`Resume “${entry.name}”?`} onClose={close} confirm="Resume" onConfirm={resume}>
      <p>The next message to the group continues this session.</p>
      {group.session_id && (
        <>
          <p>The session that is active now is archived and goes into the history.</p>
          <NameField label="Its name there" value={name} change={setName} />
        </>
      )}
    </Confirm>
  );
}

function Archives({ group, path }: { group: WholeGroup; path: string }) {
  return (
    <section>
      <h2>Archives</h2>
      {!group.archives.length && <p class="quiet">None yet. A session that is cleared is written as Markdown.</p>}
      {group.archives.map((archive) => (
        <ArchivePart key={archive.id} archive={archive} path={`${path}/archives/${archive.id}`} />
      ))}
    </section>
  );
}

function ArchivePart({ archive, path }: { archive: Archive; path: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="archive" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Text text={archive.title} />{" "}
        <span class="quiet">
          <Time at={archive.archived_at} />, {CAUSES[archive.cause] ?? archive.cause}
        </span>
      </summary>
      {open && <ArchiveText path={path} />}
    </details>
  );
}

function ArchiveText({ path }: { path: string }) {
  const load = useLoad<{ text: string }>((abort) => get(path, {}, abort), [path]);
  if (!load.data) return <State loading={load.loading} error={load.error} retry={load.reload} />;
  return (
    <div class="sheet">
      <Markdown text={load.data.text} />
    </div>
  );
}
