// An entry in a list: an observation, a summary or a prompt.
import type { ComponentChildren } from "preact";
import { entryHref, href } from "../address";
import type { Entry } from "../types";
import { Text } from "./text";
import { Time } from "./time";

interface CardProps {
  entry: Pick<Entry, "kind" | "id" | "title" | "created_at"> & Partial<Entry>;
  marks?: string[] | undefined;
  /** Buttons and notes of the place where it stands. */
  children?: ComponentChildren;
  /** Leaves out project, branch and agent, where all entries have the same. */
  isPlain?: boolean;
}

export function Card({ entry, marks, children, isPlain }: CardProps) {
  const { kind, id, title, text, type, created_at, project, branch, agent, pinned, superseded_by } = entry;
  const label = kind === "observation" ? type || "observation" : kind;
  return (
    <div class={`card ${kind} ${superseded_by ? "replaced" : ""}`}>
      <span class={`label type-${kind === "observation" ? type : kind}`}>{label}</span>
      <div class="body">
        <a class="title" href={entryHref(kind, id)}>
          <Text text={title || (kind === "prompt" ? "A private prompt" : "Without a title")} marks={marks} />
        </a>
        {text && text !== title && (
          <p class="excerpt">
            <Text text={text} marks={marks} />
          </p>
        )}
        <p class="meta">
          <Time at={created_at} />
          {kind === "observation" && <span class="id">#{id}</span>}
          {pinned && <span class="pinned">pinned</span>}
          {superseded_by && (
            <a href={entryHref("observation", superseded_by)}>replaced by #{superseded_by}</a>
          )}
          {!isPlain && project && <a href={href("/", { project })}>{project}</a>}
          {!isPlain && branch && (
            <a href={href("/", { project, branch })} class="branch">
              {branch}
            </a>
          )}
          {!isPlain && agent && <span>{agent}</span>}
          {entry.session_id && !isPlain ? <a href={href(`/s/${entry.session_id}`)}>session {entry.session_id}</a> : null}
          {children}
        </p>
      </div>
    </div>
  );
}
