// Filters of a page, which live in its address.
import { address, setParams } from "../address";
import { get, useLoad } from "../api";
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

const KINDS = ["observation", "summary", "prompt"];
const STATUSES = ["created", "active", "paused", "completed", "expired", "failed"];
/** A filter that makes others mean something else clears them. */
const CLEARS: Partial<Record<FilterName, FilterName[]>> = { project: ["branch", "group"], group: ["branch", "project"] };

interface FiltersProps {
  names: readonly FilterName[];
  /** Options in place of the usual ones. */
  options?: Partial<Record<FilterName, string[]>>;
}

export function Filters({ names, options = {} }: FiltersProps) {
  const values = useFilters(names);
  const { project, group } = values;
  const { data } = useLoad((abort) => get<Choices>("/api/feed/choices", { project, group }, abort), [project, group]);
  const known: Partial<Record<FilterName, string[]>> = {
    project: [...new Set(data?.projects.map((one) => one.name))],
    branch: data?.branches ?? [],
    agent: data?.agents ?? [],
    type: data?.types ?? [...TYPES],
    group: data?.groups ?? [],
    kind: KINDS,
    status: STATUSES,
    ...options,
  };
  const isShown = (name: FilterName) => name !== "group" || known.group?.length || values.group;
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {names.filter(isShown).map((name) => (
        <Filter key={name} name={name} value={values[name] ?? ""} options={known[name]} />
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
  value: string;
  options: string[] | undefined;
}

function Filter({ name, value, options }: FilterProps) {
  const set = (event: Event) => {
    const cleared = (CLEARS[name] ?? []).map((other) => [other, ""]);
    setParams({ ...Object.fromEntries(cleared), [name]: (event.target as HTMLInputElement).value.trim() });
  };
  return (
    <label class={value ? "set" : ""}>
      <span>{name === "since" ? "from" : name}</span>
      {options ? (
        <select value={value} onChange={set}>
          <option value="">any</option>
          {(!value || options.includes(value) ? options : [value, ...options]).map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      ) : name === "since" || name === "until" ? (
        <input type="date" value={value} onChange={set} />
      ) : (
        <input type="text" value={value} onChange={set} placeholder="any" spellcheck={false} />
      )}
    </label>
  );
}
