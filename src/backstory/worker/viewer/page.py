"""The page at `/`: a plain list of what is remembered, for now."""

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


#: Exchanges the code for a session, and asks for the page with it. The session is in sessionStorage, which a browser
#: keeps for this address and port alone; a cookie would be sent to every port of the machine.
_SCRIPT = """
async function enter() {
  const say = (text) => { document.querySelector("p").textContent = text; };
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", "/");
    const json = { "Content-Type": "application/json" };
    const answer = await fetch("/open", { method: "POST", headers: json, body: JSON.stringify({ code }) });
    const told = await answer.json();
    if (!answer.ok) return say(`${told.error} ${told.hint}`);
    sessionStorage.setItem("session", told.session);
  }
  const session = sessionStorage.getItem("session");
  if (!session) return;
  const page = await fetch("/", { headers: { Authorization: `Backstory-Session ${session}`, Accept: "text/html" } });
  if (!page.ok) return;
  const parsed = new DOMParser().parseFromString(await page.text(), "text/html");
  document.replaceChild(document.adoptNode(parsed.documentElement), document.documentElement);
}
enter();
"""
_ENTRANCE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f"<title>backstory</title><style>{_STYLE}</style><body><h1>backstory</h1>"
    f"<p>This page is its owner's. Run `backstory open` to be let in.</p><script>{_SCRIPT}</script></body></html>"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def entrance(status: int) -> HTMLResponse:
    """What a browser without a session is shown; no other script than its own runs there."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"{_POLICY}; script-src 'sha256-{digest}'; connect-src 'self'"
    return HTMLResponse(_ENTRANCE, status, HEADERS | {"Content-Security-Policy": policy})


def page(tx: Tx) -> str:
    """The newest summaries and observations of all projects."""
    summaries, observations = memories.newest_summaries(tx, 5), memories.newest_observations(tx, 100)
    body = (
        "".join(_summary(summary) for summary in summaries if summary.source == "stop")
        or "<p>Nothing yet: work with your agent, and look again.</p>"
    )
    seen = "".join(map(_observation, observations))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>backstory</title><style>{_STYLE}</style><body><h1>backstory</h1>"
        f"<h2>Last rounds</h2>{body}" + (f"<h2>Observations</h2>{seen}" if seen else "") + "</body></html>"
    )


def _summary(summary: StoredSummary) -> str:
    parts = (("Done", summary.completed), ("Learned", summary.learned), ("Next", summary.next_steps))
    lines = "".join(f"<p><b>{label}</b> {_said(text)}</p>" for label, text in parts if text)
    title = _said(summary.request or "A round")
    return f"<article><h3>{title}</h3><small>{_where(summary)}</small>{lines}</article>"


def _observation(seen: StoredObservation) -> str:
    facts = "".join(f"<li>{_said(fact)}</li>" for fact in seen.facts)
    number, text = seen.superseded_by, "" if seen.narrative == seen.title else seen.narrative
    notes = f' · replaced by <a href="#o{number}">#{number}</a>' if number else " · pinned" if seen.pinned_at else ""
    return (
        f'<article id="o{seen.id}"><h3><span class="type">{escape(seen.type)}</span>{_said(seen.title)}</h3>'
        f"<small>#{seen.id} · {_where(seen)}{notes}</small><p>{_said(text)}</p>"
        + (f"<ul>{facts}</ul>" if facts else "")
        + "</article>"
    )


def _said(text: str) -> str:
    """Text as HTML, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _where(item: StoredObservation | StoredSummary) -> str:
    at = item.created_at
    return f'{escape(item.project)} · {escape(item.agent)} · <time datetime="{escape(at)}">{local(at)}</time>'
