// The pages by the first part of their address.
import type { ComponentType } from "preact";
import Context from "./context";
import Entry from "./entry";
import Feed from "./feed";
import Group from "./group";
import Groups from "./groups";
import Health from "./health";
import Hidden from "./hidden";
import Search from "./search";
import Session from "./session";
import Sessions from "./sessions";
import Settings from "./settings";
import Stats from "./stats";

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
  sessions: { title: "Sessions", page: Sessions, nav: true },
  groups: { title: "Groups", page: Groups, nav: true },
  stats: { title: "Statistics", page: Stats, nav: true },
  health: { title: "Health", page: Health, nav: true },
  settings: { title: "Settings", page: Settings, nav: true },
  hidden: { title: "Hidden", page: Hidden },
  s: { title: "Session", page: Session },
  g: { title: "Group", page: Group },
  o: { title: "Observation", page: Entry },
  summary: { title: "Summary", page: Entry },
  prompt: { title: "Prompt", page: Entry },
};
