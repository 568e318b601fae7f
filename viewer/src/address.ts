// The address of the page: what is shown and its filters are in the fragment, which no server sees.
import { computed, signal } from "@preact/signals";

export type Params = Record<string, string | number | null | undefined>;

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

/** `#/o/12?project=shop` is the page `o` with the id `12` and a parameter. The feed's page is empty. */
export const address = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...rest] = path.split("/");
  return { page, id: decode(rest.join("/")), params: new URLSearchParams(query) };
});

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A path with the parameters that are not empty. */
export function withQuery(path: string, params: Params): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size ? `${path}?${query}` : path;
}

export function href(path: string, params: Params = {}): string {
  return `#${withQuery(path, params)}`;
}

export function go(path: string, params: Params = {}): void {
  location.hash = href(path, params);
}

/** Changes parameters of this page, without an entry in the browser's history. */
export function setParams(params: Params): void {
  const { page, id, params: now } = address.value;
  const next = { ...Object.fromEntries(now), ...params };
  history.replaceState(null, "", href(id ? `/${page}/${encodeURIComponent(id)}` : `/${page}`, next));
  hash.value = location.hash;
}

export function setParam(name: string, value: string): void {
  setParams({ [name]: value });
}

/** Where an entry has its page. */
export function entryHref(kind: string, id: number | string): string {
  return href(`/${kind === "observation" ? "o" : kind === "session" ? "s" : kind}/${id}`);
}
