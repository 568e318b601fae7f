// Filters of a page, which live in its address.
import type { ComponentChildren } from "preact";
import { address, setParams } from "../address";
import { get, useLoad } from "../api";
import { isOfSession, useEvents } from "../stream";
import type { Choices } from "../types";
import { TYPES } from "../types";
import { Button } from "./controls";

export type FilterName =
  | ("project" | "branch" | "agent" | "type" | "group" | "kind" | "file" | "since" | "until")
  | ("status" | "tag");

/** The values of the filters in the address. */
export function useFilters(names: readonly FilterName[]): Record<string, string> {
  const { params } = address.value;
  return Object.fromEntries(names.map((name) => [name, params.get(name) ?? ""]));
}

/** Times as the worker reads them, and as people say them. */
const SINCE: Record<string, string> = {
  today: "today",
  "7d": "last 7 days",
  "30d": "last 30 days",
  "52w": "last year",
};
const LABELS: Partial<Record<FilterName, string>> = { since: "time" };
/** What can be typed into a filter. */
const EXAMPLES: Partial<Record<FilterName, string>> = { file: "cart.py", until: "2026-11-01" };
const KINDS = ["observation", "summary", "prompt"];
const STATUSES = ["created", "active", "paused", "completed", "expired", "failed"];
/** A filter that makes others mean something else clears them. */
const CLEARS: Partial<Record<FilterName, FilterName[]>> = { project: ["branch", "group"], group: ["branch", "project"] };

interface ProjectName {
  name: string;
  key: string;
}

/** The name of a project, or its key if others have the same name. */
export function projectLabel({ name, key }: ProjectName, all: ProjectName[]): string {
  return all.some((other) => other.key !== key && other.name === name) ? key : name;
}

interface FiltersProps {
  names: readonly FilterName[];
  /** Options in place of the usual ones. */
  options?: Partial<Record<FilterName, string[]>>;
  /** Words in place of the usual ones. */
  labels?: Partial<Record<FilterName, string>>;
}

export function Filters({ names, options = {}, labels = {} }: FiltersProps) {
  const values = useFilters(names);
  const { project, group } = values;
  const { data, reload } = useLoad(
    (abort) => get<Choices>("/api/feed/choices", { project, group }, abort),
    [project, group],
  );
  useEvents(isOfSession, reload);
  const known: Partial<Record<FilterName, string[]>> = {
    project: data?.projects.map((one) => projectLabel(one, data.projects)) ?? [],
    branch: data?.branches ?? [],
    agent: data?.agents ?? [],
    type: data?.types ?? [...TYPES],
    group: data?.groups ?? [],
    kind: KINDS,
    status: STATUSES,
    since: Object.keys(SINCE),
    ...options,
  };
  const isShown = (name: FilterName) => name !== "group" || known.group?.length || values.group;
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {names.filter(isShown).map((name) => (
        <Filter key={name} name={name} label={labels[name] ?? LABELS[name] ?? name} value={values[name] ?? ""} options={known[name]} />
      ))}
      {Object.values(values).some(Boolean) && (
        <Button kind="quiet" onClick={() => setParams(Object.fromEntries(names.map((name) => [name, ""])))}>
          Clear
        </Button>
      )}
    </form>
  );
}

interface FilterProps {
  name: FilterName;
  label: string;
  value: string;
  options: string[] | undefined;
}

function Filter({ name, label, value, options }: FilterProps) {
  const set = (event: Event) => {
    const cleared = (CLEARS[name] ?? []).map((other) => [other, ""]);
    setParams({ ...Object.fromEntries(cleared), [name]: (event.target as HTMLInputElement).value.trim() });
  };
  if (!options) {
    return (
      <label class={value ? "set" : ""}>
        <span>{label}</span>
        <input type="text" value={value} onChange={set} placeholder={EXAMPLES[name] ?? "any"} spellcheck={false} />
      </label>
    );
  }
  const known = !value || options.includes(value) ? options : [value, ...options];
  return (
    <Pill name={label} value={value && (SINCE[value] ?? value)}>
      <select aria-label={name} value={value} onChange={set}>
        <option value="">any</option>
        {known.map((option) => (
          <option key={option} value={option}>
            {name === "since" ? (SINCE[option] ?? option) : option}
          </option>
        ))}
      </select>
    </Pill>
  );
}

/** A name and its value, which a list that lies over them changes. */
export function Pill({ name, value, children }: { name: string; value: string; children: ComponentChildren }) {
  return (
    <span class={`pill ${value ? "set" : ""}`}>
      <span>{name}</span>
      {value && <strong>{value}</strong>}
      {children}
    </span>
  );
}
