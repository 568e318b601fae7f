// What is around every page: navigation, the state of the worker, keys and messages.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { address, go, href } from "./address";
import { connection, refusal, signedOut } from "./api";
import { Button, Dialog } from "./components";
import { Toasts } from "./components/toast";
import { health } from "./health";
import { useKeys } from "./keyboard";
import { PAGES } from "./pages";
import { choice, nextTheme } from "./theme";

const isHelp = signal(false);

export function Shell() {
  const { page, id } = address.value;
  const row = PAGES[page];
  useEffect(() => {
    document.title = `${row?.title ?? "Not found"}${id ? ` ${id}` : ""} · backstory`;
    scrollTo(0, 0);
  }, [page, id]);
  useKeys({
    "/": () => (page === "search" ? document.querySelector<HTMLInputElement>("#query")?.focus() : go("/search")),
    "?": () => {
      isHelp.value = true;
    },
  });
  if (signedOut.value) return <SignedOut />;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Navigation />
      <main id="main" tabIndex={-1}>
        {row ? <row.page key={`${page}/${id}`} /> : <p class="notice">There is no such page.</p>}
      </main>
      {isHelp.value && <Help />}
      <Toasts />
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Navigation() {
  const { page } = address.value;
  return (
    <header class="side">
      <a class="brand" href={href("/")}>
        backstory
      </a>
      <nav aria-label="Pages">
        {Object.entries(PAGES)
          .filter(([, row]) => row.nav)
          .map(([path, row]) => (
            <a key={path} href={href(`/${path}`)} aria-current={path === page ? "page" : undefined}>
              {row.title}
            </a>
          ))}
      </nav>
      <Worker />
      <div class="tools">
        <Button kind="quiet" onClick={nextTheme}>
          Theme: {choice.value === "system" ? "auto" : choice.value}
        </Button>
        <Button
          kind="quiet"
          onClick={() => {
            isHelp.value = true;
          }}
        >
          Keys
        </Button>
      </div>
    </header>
  );
}

const SAYS = { live: "Live", connecting: "Connecting …", gone: "The worker does not answer" };

/** Whether the worker is there, and what waits in its queue. */
function Worker() {
  const queue = health.value?.queue;
  return (
    <div class="worker" role="status">
      <span class={`dot ${connection.value}`}>{SAYS[connection.value]}</span>
      {queue && connection.value === "live" && queue.leased + queue.queued + queue.dead > 0 && (
        <a href={href("/health")}>
          {queue.leased > 0 && <span>{queue.leased} being observed</span>}
          {queue.queued > 0 && <span>{queue.queued} queued</span>}
          {queue.dead > 0 && <span class="warn">{queue.dead} set aside</span>}
        </a>
      )}
    </div>
  );
}

const KEYS: [string, string][] = [
  ["/", "search"],
  ["j, k", "next, previous entry"],
  ["Enter", "open the entry"],
  ["x", "select the entry"],
  ["p", "pin it"],
  ["e", "edit it"],
  ["?", "these keys"],
  ["Esc", "close, or leave a field"],
];

function Help() {
  return (
    <Dialog
      title="Keys"
      onClose={() => {
        isHelp.value = false;
      }}
    >
      <dl class="keys">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function SignedOut() {
  return (
    <main id="main" class="signed-out">
      <h1 class="brand">backstory</h1>
      <p>{refusal.value || "This browser is not signed in."}</p>
      <p>
        Run <code>backstory open</code> to see your memory here.
      </p>
    </main>
  );
}
