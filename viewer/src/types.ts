// The rows as the worker sends them. `/openapi.json` describes the routes.

export type Kind = "observation" | "summary" | "prompt";
export const TYPES = ["decision", "bugfix", "feature", "refactor", "change", "discovery"] as const;

export interface Page<T> {
  items: T[];
  next: string | null;
}

/** An entry of the feed. */
export interface Entry {
  kind: Kind;
  id: number;
  session_id: number;
  project: string;
  branch: string | null;
  agent: string;
  prompt_number: number;
  created_at: string;
  title: string;
  text: string;
  type: string | null;
  pinned: boolean;
  superseded_by: number | null;
  importance: number | null;
  times_learned: number | null;
  is_private: boolean;
}

/** What filters can be set to. */
export interface Choices {
  projects: { name: string; key: string }[];
  branches: string[];
  agents: string[];
  types: string[];
  groups: string[];
}

export interface Observation {
  id: number;
  session_id: number;
  content_session_id: string;
  agent: string;
  project: string;
  project_key: string;
  prompt_number: number;
  type: string;
  title: string;
  subtitle: string;
  narrative: string;
  facts: string[];
  concepts: string[];
  files_read: string[];
  files_modified: string[];
  created_at: string;
  pinned_at: string | null;
  hidden_at: string | null;
  superseded_by: number | null;
  importance: number;
  times_learned: number;
  branch?: string | null;
  event_ids?: number[];
}

export interface Summary extends Entry {
  source: string;
  request: string;
  investigated: string;
  learned: string;
  completed: string;
  next_steps: string;
  notes: string;
}

export interface Prompt extends Entry {
  prompt: string | null;
}

/** What an observation rests on, and what it replaced. */
export interface Sources {
  events: SourceEvent[];
  turns: { number: number; role: string; speaker: string | null; text: string | null; at: string }[];
  prompt: { id: number; prompt_number: number; created_at: string; prompt: string | null } | null;
  replaces: ShortObservation[];
  replaced_by: ShortObservation | null;
  repeats: ShortObservation[];
}

export interface ShortObservation {
  id: number;
  session_id: number;
  type: string;
  title: string;
  created_at: string;
}

export interface SourceEvent {
  id: number;
  kind: string;
  tool_name: string | null;
  occurred_at: string;
  tool_input: unknown;
  tool_response: unknown;
  text: string | null;
}

export interface Hit {
  kind: string;
  id: number;
  session_id: number;
  project: string;
  agent: string;
  type: string | null;
  title: string;
  snippet: string;
  created_at: string;
  number?: number;
  prompt_number?: number;
  role?: string | null;
  pinned_at?: string | null;
  superseded_by?: number | null;
  /** Why it was found, as sentences. */
  reasons?: string[];
  /** Its words that match the query. */
  terms?: string[];
}

export interface Found extends Page<Hit> {
  note: string;
}

export interface TimelineItem {
  kind: Kind;
  id: number;
  session_id: number;
  prompt_number: number;
  created_at: string;
  type: string | null;
  title: string;
  is_anchor: boolean;
}

export interface ContextLine {
  text: string;
  reason: string;
  kind: string;
  id: number | null;
  session_id: number | null;
  part: string;
}

export interface Context {
  text: string;
  tokens: number;
  lines: ContextLine[];
  project: string;
  project_key: string;
  branch: string | null;
  directory: string;
  branches: string[];
}

export interface Health {
  status: string;
  version: string;
  queue: { queued: number; leased: number; dead: number };
  provider: string;
  model: string;
  provider_trouble: string;
  store: string;
  notice: string;
  failing: string[];
}
