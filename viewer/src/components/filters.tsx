// Filters of a page, which live in its address.
import { address, setParams } from "../address";
import { get, useLoad } from "../api";
import type { Page, Project } from "../types";
import { TYPES } from "../types";
import { Button } from "./controls";

export type FilterName = "project" | "branch" | "agent" | "type" | "group" | "kind" | "since" | "until" | "status" | "tag";

/** The values of the filters in the address. */
export function useFilters(names: readonly FilterName[]): Record<string, string> {
  const { params } = address.value;
  return Object.fromEntries(names.map((name) => [name, params.get(name) ?? ""]));
}

const KINDS = ["observation", "summary", "prompt"];
const STATUSES = ["created", "active", "paused", "completed", "expired", "failed"];

export function Filters({ names }: { names: readonly FilterName[] }) {
  const values = useFilters(names);
  const { data: projects } = useLoad(() => get<Page<Project>>("/api/projects"), []);
  const options: Partial<Record<FilterName, string[]>> = {
    project: [...new Set(projects?.items.map((one) => String(one.name)))],
    type: [...TYPES],
    kind: KINDS,
    status: STATUSES,
  };
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {names.map((name) => (
        <Filter key={name} name={name} value={values[name] ?? ""} options={options[name]} />
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
  const set = (event: Event) => setParams({ [name]: (event.target as HTMLInputElement).value });
  const label = name === "since" ? "from" : name;
  if (options) {
    const known = !value || options.includes(value) ? options : [value, ...options];
    return (
      <label class={value ? "set" : ""}>
        <span>{label}</span>
        <select value={value} onChange={set}>
          <option value="">any</option>
          {known.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      </label>
    );
  }
  const isDate = name === "since" || name === "until";
  return (
    <label class={value ? "set" : ""}>
      <span>{label}</span>
      {isDate ? (
        <input type="date" value={value} onChange={set} />
      ) : (
        <input type="text" value={value} onChange={set} placeholder="any" spellcheck={false} />
      )}
    </label>
  );
}
