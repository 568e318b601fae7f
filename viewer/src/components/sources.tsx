// What an observation rests on: the prompt, what was said, and the tools that were used.
import { entryHref, href } from "../address";
import { get, useLoad } from "../api";
import { visible } from "../text";
import type { ShortObservation, SourceEvent, Sources as SourcesOf } from "../types";
import { State } from "./state";
import { Markdown, Said, Text } from "./text";
import { Time } from "./time";

export function Sources({ id, session }: { id: number; session: number }) {
  const { data, error, loading } = useLoad((abort) => get<SourcesOf>(`/api/observations/${id}/sources`, {}, abort), [id]);
  if (!data) return <State loading={loading} error={error} />;
  const { prompt, turns, events, replaces, replaced_by, repeats } = data;
  return (
    <>
      <Others title="Replaced by" rows={replaced_by ? [replaced_by] : []} />
      <Others title="It replaced" rows={replaces} />
      <Others title="Earlier sessions learned the same" rows={repeats} />
      <section>
        <h2>It rests on</h2>
        {prompt && (
          <blockquote class="asked">
            <p>{prompt.prompt ? <Text text={prompt.prompt} /> : "A private prompt"}</p>
            <p class="meta">
              <a href={href(`/s/${session}`, { prompt: prompt.prompt_number })}>
                prompt {prompt.prompt_number} of session {session}
              </a>
              <Time at={prompt.created_at} />
            </p>
          </blockquote>
        )}
        {turns.length > 0 && (
          <details>
            <summary>What was said ({turns.length})</summary>
            {turns.map((turn) => (
              <div class="said" key={turn.number}>
                <p class="meta">
                  <strong>{turn.speaker ?? turn.role}</strong> <Time at={turn.at} />
                </p>
                {turn.text === null ? <p class="quiet">Private</p> : <Markdown text={turn.text} />}
              </div>
            ))}
          </details>
        )}
        {events.filter(isEvidence).map((event) => (
          <EventSource key={event.id} event={event} />
        ))}
        {!prompt && !turns.length && !events.some(isEvidence) && <p class="quiet">Nothing that is still stored.</p>}
      </section>
    </>
  );
}

/** The end of a round only repeats what was said. */
const isEvidence = (event: SourceEvent) => event.kind !== "stop" && event.kind !== "memory";

function Others({ title, rows }: { title: string; rows: ShortObservation[] }) {
  if (!rows.length) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul class="others">
        {rows.map((row) => (
          <li key={row.id}>
            <a href={entryHref("observation", row.id)}>
              <span class="id">#{row.id}</span> <Said mark={row.mark} /><Text text={row.title} />
            </a>{" "}
            <span class="quiet">
              <Time at={row.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function EventSource({ event }: { event: SourceEvent }) {
  const shown = { in: event.tool_input, out: event.tool_response ?? event.text };
  return (
    <details class="event">
      <summary>
        <code>{event.tool_name ?? event.kind}</code> <Text text={gist(event)} /> <Time at={event.occurred_at} as="clock" />
      </summary>
      {Object.entries(shown).map(([name, value]) =>
        value === null || value === undefined || value === "" ? null : (
          <pre key={name} tabIndex={0} aria-label={name}>
            {written(value)}
          </pre>
        ),
      )}
    </details>
  );
}

/** The part of a tool's input that says the most. */
function gist(event: SourceEvent): string {
  const input = event.tool_input;
  if (typeof input === "string") return input.slice(0, 120);
  if (!input || typeof input !== "object") return (event.text ?? "").slice(0, 120);
  const values = input as Record<string, unknown>;
  const name = ["file_path", "path", "command", "pattern", "query", "url", "description"].find((one) => values[one]);
  return String(name ? values[name] : "").slice(0, 120);
}

function written(value: unknown): string {
  return visible(typeof value === "string" ? value : JSON.stringify(value, null, 2)).replaceAll("\\n", "\n");
}
