"""The page at `/`: a plain list of what is remembered, for now."""

from __future__ import annotations

import json
import re
from html import escape

from backstory.store.db import Row, Tx
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


def page(tx: Tx) -> str:
    """The newest summaries and observations of all projects."""
    last = 2**62
    summaries = tx.all("summaries_list", project="", session_id=0, before=last, limit=5)
    observations = tx.all("observations_list", project="", type="", session_id=0, before=last, limit=100)
    body = (
        "".join(_summary(row) for row in summaries if row["source"] == "stop")
        or "<p>Nothing yet: work with your agent, and look again.</p>"
    )
    seen = "".join(_observation(row) for row in observations)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>backstory</title><style>{_STYLE}</style><body><h1>backstory</h1>"
        f"<h2>Last rounds</h2>{body}" + (f"<h2>Observations</h2>{seen}" if seen else "") + "</body></html>"
    )


def _summary(row: Row) -> str:
    parts = (("Done", row["completed"]), ("Learned", row["learned"]), ("Next", row["next_steps"]))
    lines = "".join(f"<p><b>{label}</b> {_said(text)}</p>" for label, text in parts if text)
    return f"<article><h3>{_said(row['request'] or 'A round')}</h3><small>{_where(row)}</small>{lines}</article>"


def _observation(row: Row) -> str:
    facts = "".join(f"<li>{_said(fact)}</li>" for fact in json.loads(row["facts"]))
    number, told = row["superseded_by"], "" if row["narrative"] == row["title"] else row["narrative"]
    notes = f' · replaced by <a href="#o{number}">#{number}</a>' if number else " · pinned" if row["pinned_at"] else ""
    return (
        f'<article id="o{row["id"]}"><h3><span class="type">{escape(row["type"])}</span>{_said(row["title"])}</h3>'
        f"<small>#{row['id']} · {_where(row)}{notes}</small><p>{_said(told)}</p>"
        + (f"<ul>{facts}</ul>" if facts else "")
        + "</article>"
    )


def _said(text: str) -> str:
    """Text as HTML, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _where(row: Row) -> str:
    at = row["created_at"]
    return f'{escape(row["project"])} · {escape(row["agent"])} · <time datetime="{at}">{local(at)}</time>'
