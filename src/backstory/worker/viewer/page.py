"""The web page at `/`: a list of the newest summaries and observations."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape

from starlette.responses import HTMLResponse

from backstory.store import memories
from backstory.store.db import Tx
from backstory.store.memories import StoredObservation, StoredSummary
from backstory.text import local

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 2rem 0 .5rem; opacity: .7; font-weight: 600; }
article { border-top: 1px solid #8884; padding: .6rem 0; }
h3 { font-size: 1rem; margin: 0; } p, ul { margin: .3rem 0; } small, time { opacity: .65; }
code { font-size: .9em; } body { overflow-wrap: anywhere; }
.type { font-size: .75rem; border: 1px solid #8886; border-radius: 1rem; padding: 0 .5rem; margin-right: .4rem; }
"""

#: Exchanges the code for a session and loads the page with it. The session is in sessionStorage, which belongs to this
#: address and port alone. A cookie would be sent to every port of the machine.
_SCRIPT = """
async function signIn() {
  const say = (text) => { document.querySelector("p").textContent = text; };
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", "/");
    const json = { "Content-Type": "application/json" };
    const answer = await fetch("/open", { method: "POST", headers: json, body: JSON.stringify({ code }) });
    const result = await answer.json();
    if (!answer.ok) return say(`${result.error} ${result.hint}`);
    sessionStorage.setItem("session", result.session);
  }
  const session = sessionStorage.getItem("session");
  if (!session) return;
  const page = await fetch("/", { headers: { Authorization: `Backstory-Session ${session}`, Accept: "text/html" } });
  if (!page.ok) return;
  const parsed = new DOMParser().parseFromString(await page.text(), "text/html");
  document.replaceChild(document.adoptNode(parsed.documentElement), document.documentElement);
}
signIn();
"""
_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f"<title>backstory</title><style>{_STYLE}</style><body><h1>backstory</h1>"
)
_SIGN_IN = f"{_HEAD}<p>Run `backstory open` to see this page.</p><script>{_SCRIPT}</script></body></html>"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def sign_in_page(status: int) -> HTMLResponse:
    """Return the page for a browser without a session. Only its own script can run there."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"{_POLICY}; script-src 'sha256-{digest}'; connect-src 'self'"
    return HTMLResponse(_SIGN_IN, status, HEADERS | {"Content-Security-Policy": policy})


def page(tx: Tx) -> str:
    """Render the newest summaries and observations of all projects."""
    newest = memories.newest_summaries(tx, 5)
    summaries = "".join(_summary(summary) for summary in newest if summary.source == "stop")
    observations = "".join(map(_observation, memories.newest_observations(tx, 100)))
    return (
        f"{_HEAD}<h2>Last rounds</h2>"
        + (summaries or "<p>Nothing yet. Work with your agent, then reload this page.</p>")
        + (f"<h2>Observations</h2>{observations}" if observations else "")
        + "</body></html>"
    )


def _summary(summary: StoredSummary) -> str:
    parts = (("Done", summary.completed), ("Learned", summary.learned), ("Next", summary.next_steps))
    lines = "".join(f"<p><b>{label}</b> {_html(text)}</p>" for label, text in parts if text)
    title = _html(summary.request or "A round")
    return f"<article><h3>{title}</h3><small>{_origin(summary)}</small>{lines}</article>"


def _observation(item: StoredObservation) -> str:
    facts = "".join(f"<li>{_html(fact)}</li>" for fact in item.facts)
    number, text = item.superseded_by, "" if item.narrative == item.title else item.narrative
    notes = f' · replaced by <a href="#o{number}">#{number}</a>' if number else " · pinned" if item.pinned_at else ""
    return (
        f'<article id="o{item.id}"><h3><span class="type">{escape(item.type)}</span>{_html(item.title)}</h3>'
        f"<small>#{item.id} · {_origin(item)}{notes}</small><p>{_html(text)}</p>"
        + (f"<ul>{facts}</ul>" if facts else "")
        + "</article>"
    )


def _html(text: str) -> str:
    """Escape text, and show parts in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _origin(item: StoredObservation | StoredSummary) -> str:
    """Return project, agent and time of a row."""
    at = item.created_at
    return f'{escape(item.project)} · {escape(item.agent)} · <time datetime="{escape(at)}">{local(at)}</time>'
