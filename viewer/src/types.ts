// The rows as the worker sends them. `/openapi.json` describes the routes.

export type Kind = "observation" | "summary" | "prompt";
export const TYPES = ["decision", "bugfix", "feature", "refactor", "change", "discovery"] as const;

/** Who said a title or a fact, or when, if it need not hold. */
export type Mark = "" | "user" | "proposed" | "earlier";

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
  mark?: Mark | null;
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
  mark: Mark;
  title: string;
  subtitle: string;
  narrative: string;
  facts: string[];
  fact_marks: Mark[];
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
  mark: Mark;
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
  mark?: Mark | null;
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
  mark: Mark;
  title: string;
  is_anchor: boolean;
}

/** What was taken out of context and search. */
export interface HiddenRows {
  observations: Observation[];
  sessions: SessionRow[];
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
  pid: number;
  uptime_s: number;
  queue: { queued: number; leased: number; dead: number };
  provider: string;
  model: string;
  provider_trouble: string;
  store: string;
  notice: string;
  problems: string[];
  failing: string[];
}

/** A session in a list. `snippet` is there if words found it. */
export interface SessionRow {
  id: number;
  agent: string;
  content_session_id: string;
  project: string;
  project_key: string;
  cwd: string;
  git_branch: string | null;
  title: string;
  tags: string[];
  status: string;
  prompt_counter: number;
  parent_id: number | null;
  start_source: string | null;
  created_at: string;
  last_event_at: string;
  hidden_at: string | null;
  observation_count?: number;
  snippet?: string;
}

export interface WholeSession extends SessionRow {
  links: { relation: string; id: number; title: string; at: string }[];
  moves: { from_status: string | null; to_status: string; cause: string; at: string }[];
  segments: { number: number; since: string; until: string }[];
  prompts: Prompt[];
  summaries: Summary[];
  observations: Observation[];
  usage: SessionUsage | null;
  told: ToldContext[];
  counts: { turns: number; tools: number; characters: number };
}

/** What a session used, if its agent tells. */
export interface SessionUsage {
  models: { model: string }[];
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_micros: number | null;
  cost_source: "agent" | "estimate" | "";
  models_without_price: string[];
}

/** What a session was told at a moment. `gone` are observations that are hidden or forgotten since. */
export interface ToldContext {
  cause: string;
  at: string;
  tokens: number;
  gone: number;
  observations: { id: number; type: string; mark: Mark; title: string }[];
}

export interface TurnStep {
  kind: "turn";
  number: number;
  role: "user" | "assistant";
  speaker: string | null;
  text: string | null;
  at: string;
}

export interface ToolStep {
  kind: "tool";
  id: number;
  tool_name: string | null;
  used_for: string;
  error: string | null;
  at: string;
}

/** A prompt and what came of it until the next one. */
export interface Round {
  number: number;
  steps: (TurnStep | ToolStep)[];
}

export interface ToolUse {
  id: number;
  tool_name: string | null;
  tool_input: string | null;
  tool_response: string | null;
  error: string | null;
  occurred_at: string;
}

export interface GroupRow {
  name: string;
  session_id: string | null;
  updated_at: string | null;
  history: number;
  archives: number;
  is_running: boolean;
}

export interface HistoryEntry {
  id: number;
  session_id: string;
  name: string;
  created_at: string;
  archived_at: string;
  transcript_available: boolean;
}

export interface Archive {
  id: number;
  file: string;
  title: string;
  session_id: string;
  cause: string;
  archived_at: string;
}

export interface WholeGroup {
  name: string;
  folder: string;
  session_id: string | null;
  generation: number;
  is_running: boolean;
  history: HistoryEntry[];
  archives: Archive[];
}

export interface Setting {
  name: string;
  value: string | number | string[] | null;
  default: string | number | string[] | null;
  description: string;
  type: string;
  choices: string[];
  is_secret: boolean;
  is_set: boolean;
  is_changed: boolean;
  needs_restart: boolean;
  /** It is written, and the worker has not been restarted since. */
  is_pending: boolean;
  /** Some can only be changed by the command. */
  is_editable: boolean;
  source: "default" | "file" | "environment";
}

export interface ProviderAnswer {
  ok: boolean;
  says: string;
  seconds: number;
  provider: string;
  model: string;
}

/** A problem, or something worth knowing, as doctor says it. */
export interface Finding {
  name: string;
  level: "wrong" | "note";
  says: string;
  do: string;
  mends: boolean;
}

export interface QueueRow {
  id: number;
  session_id: number;
  project: string;
  kind: string;
  tool_name: string | null;
  status: string;
  attempts: number;
  last_error: string | null;
  created_at: string;
}

export interface StatDay {
  day: string;
  sessions: number;
  prompts: number;
  observations: number;
  summaries: number;
  tokens_spent: number;
  cost_micros: number;
  calls_without_price: number;
  contexts: number;
  tokens_told_estimate: number;
}

export interface WhereLearned {
  files: { path: string; project: string; observations: number }[];
  projects: { name: string; key: string; observations: number }[];
  types: { type: string; observations: number }[];
}

export interface QueueStats {
  queued: number;
  leased: number;
  dead: number;
  p50_s: number | null;
  p95_s: number | null;
  rounds: { at: string; seconds: number }[];
}

export interface Stats {
  counts: { sessions: number; prompts: number; summaries: number; observations: Record<string, number> };
  sizes: Record<string, number>;
  room: Record<string, number>;
}
