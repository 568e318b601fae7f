// Starts the page.
import { render } from "preact";
import "./harmless";
import { signIn } from "./api";
import { followHealth } from "./health";
import { Shell } from "./shell";
import { follow } from "./stream";

const app = document.getElementById("app");
if (app) {
  addEventListener("hashchange", () => void signIn()); // the link of `backstory open`, in a tab that is open
  await signIn();
  render(<Shell />, app);
  followHealth();
  void follow();
}
