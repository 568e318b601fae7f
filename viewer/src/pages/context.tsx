// What a new session of a project would be told, with the reason for each line.
import { address, entryHref, go, href, setParams } from "../address";
import { get, useLoad } from "../api";
import { Button, Copy, State, Text } from "../components";
import { Pill, projectLabel } from "../components/filters";
import { hide, leaving, pin } from "../curate";
import { useEvents } from "../stream";
import { plural } from "../text";
import type { Choices, Context as ContextOf, ContextLine } from "../types";

export default function Context() {
  const { params } = address.value;
  const { data: choices, error: trouble, loading: isOpening } = useLoad(
    (abort) => get<Choices>("/api/feed/choices", {}, abort),
    [],
  );
  const project = params.get("project") || choices?.projects[0]?.key || "";
  const branch = params.get("branch") ?? "";
  const { data, error, loading, reload } = useLoad(
    async (abort) => (project ? get<ContextOf>("/api/context", { project, branch }, abort) : undefined),
    [project, branch],
  );
  useEvents((event) => /^(new_|changed|gone)/.test(event), reload);
  const projects = choices?.projects ?? [];
  const chosen = projects.find((one) => one.key === project) ?? projects.find((one) => one.name === project);
  const isNone = choices && !projects.length && !project;
  return (
    <>
      <header>
        <h1>What would a session be told?</h1>
      </header>
      <form class="filters" aria-label="Session" onSubmit={(event) => event.preventDefault()}>
        {choices && (
          <>
            <Pill name="project" value={chosen ? projectLabel(chosen, projects) : project}>
              <select aria-label="project" value={chosen?.key ?? project} onChange={(event) => setParams({ project: event.currentTarget.value, branch: "" })}>
                {projects.map((one) => (
                  <option key={one.key} value={one.key}>
                    {projectLabel(one, projects)}
                  </option>
                ))}
                {project && !chosen && <option>{project}</option>}
              </select>
            </Pill>
            <Pill name="branch" value={branch || data?.branch || ""}>
              <select aria-label="branch" value={branch} onChange={(event) => setParams({ branch: event.currentTarget.value })}>
                <option value="">the one in use now</option>
                {data?.branches.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            </Pill>
          </>
        )}
        {data && (
          <>
            <span class="quiet">
              about {plural(data.tokens, "token")}, {plural(data.lines.filter((line) => line.text).length, "line")}
            </span>
            <a href={href("/hidden", { project: data.project_key })}>hidden lines</a>
            <Copy text={data.text} label="Copy the text" />
          </>
        )}
      </form>
      <State
        loading={(isOpening || loading) && !data}
        error={trouble ?? error}
        retry={reload}
        empty={isNone ? <NoProject /> : null}
      />
      {data && (
        <ol class="context">
          {data.lines.map((line, place) =>
            line.text && !(line.kind === "observation" && leaving.value.has(line.id ?? 0)) ? (
              <Line key={`${place} ${line.text}`} line={line} reload={reload} />
            ) : null,
          )}
        </ol>
      )}
    </>
  );
}

function NoProject() {
  return (
    <>
      <h2>No project is known yet</h2>
      <p>A session is told something once an earlier one left something.</p>
    </>
  );
}

function Line({ line, reload }: { line: ContextLine; reload: () => void }) {
  const { kind, id, session_id, text, reason } = line;
  if (kind === "heading") {
    return (
      <li class="heading">
        <h2>{session_id ? <a href={href(`/s/${session_id}`)}>{text.replace(/^#+ /, "")}</a> : text.replace(/^#+ /, "")}</h2>
      </li>
    );
  }
  const isPinned = line.part === "pinned";
  return (
    <li class={kind}>
      <p class="told">
        {kind === "observation" && id ? <ObservationLine text={text} id={id} /> : <Text text={text} />}
      </p>
      <div class="meta">
        {reason && <span class="why">Why: {reason}</span>}
        {kind === "summary" && id && <a href={entryHref("summary", id)}>summary</a>}
        {kind === "session" && session_id && <a href={href(`/s/${session_id}`)}>session {session_id}</a>}
        {kind === "observation" && id && (
          <span class="actions">
            <Button kind="quiet" onClick={() => void pin(id, !isPinned).then(reload)}>
              {isPinned ? "Unpin" : "Pin"}
            </Button>
            <Button kind="quiet" onClick={() => void hide([id]).then(reload)}>
              Hide
            </Button>
            <Button kind="quiet" onClick={() => go(`/o/${id}`, { edit: 1 })}>
              Correct
            </Button>
          </span>
        )}
      </div>
    </li>
  );
}

/** `#12 decision: …` with its number as a link and its type in its colour. */
function ObservationLine({ text, id }: { text: string; id: number }) {
  const found = /^#\d+ ([\w-]+): (.*)$/s.exec(text);
  return (
    <>
      <a class="id" href={entryHref("observation", id)}>
        #{id}
      </a>{" "}
      {found ? (
        <>
          <span class={`type-${found[1]}`}>{found[1]}</span> <Text text={found[2]} />
        </>
      ) : (
        <Text text={text} />
      )}
    </>
  );
}
