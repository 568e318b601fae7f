// An entry in a list: an observation, a summary or a prompt.
import type { ComponentChildren } from "preact";
import { entryHref, href } from "../address";
import type { Entry } from "../types";
import { Said, Text } from "./text";
import { Time } from "./time";

interface CardProps {
  entry: Pick<Entry, "kind" | "id" | "title" | "created_at"> & Partial<Entry>;
  /** Words to highlight. */
  marks?: string[] | undefined;
  /** Buttons and notes of the place where it stands. */
  children?: ComponentChildren;
  /** Leaves out project, branch and agent, where all entries have the same. */
  isPlain?: boolean;
  isSelected?: boolean;
}

export function Card({ entry, marks, children, isPlain, isSelected }: CardProps) {
  const { kind, id, text, type, superseded_by } = entry;
  const title = wholeTitle(entry) || (entry.is_private ? "A private prompt" : "Without a title");
  return (
    <div class={`card ${kind} ${superseded_by ? "replaced" : ""} ${isSelected ? "selected" : ""}`}>
      <span class={`label type-${kind === "observation" ? type : kind}`}>
        {kind === "observation" ? type : kind}
      </span>
      <div class="body">
        <a class="title" href={entryHref(kind, id)}>
          <Said mark={entry.mark} />
          <Text text={title} marks={marks} />
        </a>
        {text && text !== title && !title.startsWith(text) && (
          <p class="excerpt">
            <Text text={text} marks={marks} />
          </p>
        )}
        <div class="meta">
          <Time at={entry.created_at} />
          {kind === "observation" && <span class="id">#{id}</span>}
          {entry.pinned && <span class="pinned">pinned</span>}
          {(entry.times_learned ?? 1) > 1 && <span>learned {entry.times_learned} times</span>}
          {superseded_by && <a href={entryHref("observation", superseded_by)}>replaced by #{superseded_by}</a>}
          {!isPlain && <Origin entry={entry} />}
          {children}
        </div>
      </div>
    </div>
  );
}

/** The title, or the text if the title is only its beginning. */
function wholeTitle({ title, text }: { title: string; text?: string }): string {
  const start = title.replace(/(…|\.\.\.)$/, "");
  return text?.startsWith(start) ? text : title;
}

/** Project, branch, agent and session of an entry, as links to what else they have. */
export function Origin({ entry }: { entry: Partial<Pick<Entry, "project" | "branch" | "agent" | "session_id" | "prompt_number">> }) {
  const { project, branch, agent, session_id } = entry;
  return (
    <>
      {project && <a href={href("/", { project })}>{project}</a>}
      {branch && (
        <a class="branch" href={href("/", { project, branch })}>
          {branch}
        </a>
      )}
      {agent && agent !== "backstory" && <span>{agent}</span>}
      {session_id && <a href={href(`/s/${session_id}`, { prompt: entry.prompt_number })}>session {session_id}</a>}
    </>
  );
}
