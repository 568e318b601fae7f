// The pages by the first part of their address.
import type { ComponentType } from "preact";
import Context from "./context";
import Entry from "./entry";
import Feed from "./feed";
import Search from "./search";

interface PageRow {
  title: string;
  page: ComponentType;
  /** Its place in the navigation; none if other pages lead to it. */
  nav?: boolean;
}

export const PAGES: Record<string, PageRow> = {
  "": { title: "Feed", page: Feed, nav: true },
  search: { title: "Search", page: Search, nav: true },
  context: { title: "Context", page: Context, nav: true },
  o: { title: "Observation", page: Entry },
  summary: { title: "Summary", page: Entry },
  prompt: { title: "Prompt", page: Entry },
};
