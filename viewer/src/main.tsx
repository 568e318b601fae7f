// Starts the page.
import { render } from "preact";
import { signIn } from "./api";
import { followHealth } from "./health";
import { Shell } from "./shell";
import { follow } from "./stream";

const app = document.getElementById("app");
if (app) {
  await signIn();
  render(<Shell />, app);
  followHealth();
  void follow();
}
