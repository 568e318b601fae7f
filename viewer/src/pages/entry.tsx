// One entry in full: an observation, a summary or a prompt, with what happened around it.
import { useState } from "preact/hooks";
import { address, href, setParams } from "../address";
import { get, observationsOf, useLoad } from "../api";
import { Badge, Button, Card, Copy, Markdown, Said, State, Text, Time } from "../components";
import { Chooser } from "../components/chooser";
import { Origin } from "../components/card";
import { EditForm } from "../components/edit";
import { Sources } from "../components/sources";
import { Timeline } from "../components/timeline";
import { forget, forgotten, hide, pin, show, supersede } from "../curate";
import { useKeys } from "../keyboard";
import { useEvents } from "../stream";
import type { Entry as FeedEntry, Observation, Prompt, Summary } from "../types";

export default function Entry() {
  const { page, id } = address.value;
  const kind = page === "o" ? "observation" : page;
  return (
    <div class="entry">
      <div class="entry-body">
        {kind === "observation" ? (
          <ObservationPage id={Number(id)} />
        ) : kind === "summary" ? (
          <SummaryPage id={id} />
        ) : (
          <PromptPage id={id} />
        )}
      </div>
      <Timeline kind={kind} id={id} />
    </div>
  );
}

function ObservationPage({ id }: { id: number }) {
  const { data, error, loading, reload } = useLoad(
    (abort) => get<Observation>(`/api/observations/${id}`, {}, abort),
    [id],
  );
  useEvents(
    (event, data) => (event === "changed" && data.id === id) || (event === "gone" && data.observations.includes(id)),
    reload,
  );
  const isEditing = address.value.params.has("edit");
  if (forgotten.value.has(id)) return <Leaving id={id} />;
  if (!data) return <State loading={loading} error={error} retry={reload} />;
  const stopEditing = () => setParams({ edit: "" });
  return (
    <>
      <header class="about">
        <p class="meta">
          <span class={`label type-${data.type}`}>{data.type}</span>
          <span class="id">#{id}</span>
          <Time at={data.created_at} />
          <Origin entry={data} />
        </p>
        {!isEditing && (
          <h1>
            <Said mark={data.mark} />
            <Text text={data.title} />
          </h1>
        )}
      </header>
      {isEditing ? (
        <EditForm
          observation={data}
          onDone={() => {
            stopEditing();
            reload();
          }}
          onCancel={stopEditing}
        />
      ) : (
        <>
          <ObservationButtons observation={data} reload={reload} />
          <Standing observation={data} />
          <ObservationText observation={data} />
        </>
      )}
      <Sources key={data.superseded_by} id={id} session={data.session_id} />
    </>
  );
}

/** In the ten seconds in which forgetting can be taken back, and when it is done. */
function Leaving({ id }: { id: number }) {
  return (
    <div class="notice" role="status">
      <h2>#{id} is being forgotten</h2>
      <p>The message below takes it back, as long as it is there.</p>
      <a href={href("/")}>Back to the feed</a>
    </div>
  );
}

function ObservationButtons({ observation, reload }: { observation: Observation; reload: () => void }) {
  const { id, pinned_at, hidden_at, superseded_by } = observation;
  const [isReplacing, setReplacing] = useState(false);
  const then = (work: Promise<unknown>) => void work.then(reload);
  useKeys({ p: () => then(pin(id, !pinned_at)), e: () => setParams({ edit: 1 }) });
  return (
    <p class="buttons">
      <Button pressed={!!pinned_at} onClick={() => then(pin(id, !pinned_at))}>
        {pinned_at ? "Pinned" : "Pin"}
      </Button>
      <Button onClick={() => setParams({ edit: 1 })}>Edit</Button>
      <Button onClick={() => then(hidden_at ? show([id]) : hide([id]))}>{hidden_at ? "Show again" : "Hide"}</Button>
      {superseded_by ? (
        <Button onClick={() => then(supersede(id, null))}>Restore</Button>
      ) : (
        <Button onClick={() => setReplacing(true)}>Replace …</Button>
      )}
      <Button kind="danger" onClick={() => forget([id])}>
        Forget
      </Button>
      <Copy text={`#${id} ${observation.title}`} />
      {isReplacing && (
        <Chooser
          title={`What replaces #${id}?`}
          project={observation.project_key}
          except={id}
          onClose={() => setReplacing(false)}
          onChoose={(by) => {
            setReplacing(false);
            then(supersede(id, by));
          }}
        />
      )}
    </p>
  );
}

/** Whether sessions are told it. */
function Standing({ observation }: { observation: Observation }) {
  const { pinned_at, hidden_at, superseded_by, times_learned } = observation;
  const says = hidden_at
    ? "It is hidden: no context and no search has it."
    : superseded_by
      ? `It no longer holds: #${superseded_by} replaces it.`
      : pinned_at
        ? "It is pinned: every session of its project is told it."
        : times_learned > 1
          ? `${times_learned} sessions learned it.`
          : "";
  return says ? <p class="standing">{says}</p> : null;
}

function ObservationText({ observation }: { observation: Observation }) {
  const { title, subtitle, narrative, facts, fact_marks, concepts, files_modified, files_read, project } = observation;
  return (
    <>
      {subtitle && <p class="lead">{<Text text={subtitle} />}</p>}
      {narrative && narrative !== title && <Markdown text={narrative} />}
      {facts.length > 0 && (
        <ul class="entry-facts">
          {facts.map((fact, place) => (
            <li key={fact}>
              <Said mark={fact_marks[place]} />
              <Text text={fact} />
            </li>
          ))}
        </ul>
      )}
      <Files title="Changed" files={files_modified} project={project} />
      <Files title="Read" files={files_read} project={project} />
      {concepts.length > 0 && (
        <p class="badges">
          {concepts.map((concept) => (
            <Badge key={concept}>{concept}</Badge>
          ))}
        </p>
      )}
    </>
  );
}

function Files({ title, files, project }: { title: string; files: string[]; project: string }) {
  if (!files.length) return null;
  return (
    <p class="files">
      <span class="quiet">{title}</span>
      {files.map((file) => (
        <a key={file} href={href("/search", { file, project })}>
          <code>{file}</code>
        </a>
      ))}
    </p>
  );
}

const PARTS: [keyof Summary, string][] = [
  ["request", "Asked"],
  ["investigated", "Looked into"],
  ["completed", "Done"],
  ["learned", "Learned"],
  ["next_steps", "Open"],
  ["notes", "Notes"],
];

function SummaryPage({ id }: { id: string }) {
  const { data, error, loading, reload } = useLoad((abort) => get<Summary>(`/api/summaries/${id}`, {}, abort), [id]);
  if (!data) return <State loading={loading} error={error} retry={reload} />;
  return (
    <>
      <EntryHead entry={data} label="summary" title={data.request || "A round"} />
      <dl class="summary-parts">
        {PARTS.filter(([name]) => data[name] && name !== "request").map(([name, label]) => (
          <div key={name}>
            <dt>{label}</dt>
            <dd>
              <Markdown text={String(data[name])} />
            </dd>
          </div>
        ))}
      </dl>
      <Round entry={data} />
    </>
  );
}

function PromptPage({ id }: { id: string }) {
  const { data, error, loading, reload } = useLoad((abort) => get<Prompt>(`/api/prompts/${id}`, {}, abort), [id]);
  if (!data) return <State loading={loading} error={error} retry={reload} />;
  return (
    <>
      <EntryHead entry={data} label="prompt" title={`Prompt ${data.prompt_number}`} />
      {data.prompt ? (
        <div class="prompt-text">
          <Text text={data.prompt} />
        </div>
      ) : (
        <p class="quiet">It is private, or it was forgotten.</p>
      )}
      <Round entry={data} />
    </>
  );
}

/** Characters from which a title is written smaller. */
const LONG_TITLE = 120;

function EntryHead({ entry, label, title }: { entry: FeedEntry; label: string; title: string }) {
  return (
    <header class="about">
      <p class="meta">
        <span class={`label type-${label}`}>{label}</span>
        <Time at={entry.created_at} />
        <Origin entry={entry} />
      </p>
      <h1 class={title.length > LONG_TITLE ? "long" : ""}>
        <Text text={title} />
      </h1>
    </header>
  );
}

/** The observations of the same session, for somebody who wants to know what came of it. */
function Round({ entry }: { entry: FeedEntry }) {
  const { session_id, prompt_number } = entry;
  const { data } = useLoad((abort) => observationsOf(session_id, abort), [session_id]);
  const rows = data?.filter((row) => row.prompt_number === prompt_number) ?? [];
  if (!rows.length) return null;
  return (
    <section>
      <h2>What came of it</h2>
      {rows.map((row) => (
        <Card
          key={row.id}
          isPlain
          entry={{
            ...{ kind: "observation", id: row.id, type: row.type, mark: row.mark, title: row.title, text: row.narrative },
            ...{ created_at: row.created_at, pinned: !!row.pinned_at, superseded_by: row.superseded_by },
          }}
        />
      ))}
    </section>
  );
}
