// Light or dark: as the system says, or as the switch says.
import { computed, effect, signal } from "@preact/signals";

export type Choice = "system" | "light" | "dark";

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = signal(dark.matches);
dark.addEventListener("change", () => {
  isDark.value = dark.matches;
});

export const choice = signal<Choice>((localStorage.getItem("theme") as Choice | null) ?? "system");
/** The theme that is shown. */
export const theme = computed(() => (choice.value === "system" ? (isDark.value ? "dark" : "light") : choice.value));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("theme", choice.value);
});

export function nextTheme(): void {
  choice.value = choice.value === "system" ? "light" : choice.value === "light" ? "dark" : "system";
}
