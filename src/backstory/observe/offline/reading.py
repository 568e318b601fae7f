"""Reading, told: what was looked at, and what it was found to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from backstory.observe.offline.acts import Act, file_text, mapping, text_of
from backstory.observe.offline.changes import short
from backstory.observe.offline.draft import Draft
from backstory.observe.offline.message import conclusion, headline, points
from backstory.observe.offline.scene import Scene
from backstory.observe.offline.symbols import CONFIG, PROSE, Symbol, definitions, language
from backstory.observe.offline.text import clip, code, joined, tidy

#: Files whose definitions are looked for: enough for what is told, and bounded in time.
OUTLINED = 12
_ASIDE = re.compile(r"(?:^|/)(?:tmp|private|var|tool-results)/|\.(?:png|jpe?g|gif|pdf|log|output|lock|svg|ico)$|^/dev/")
_LAUNCHED = re.compile(
    r"^(?:Async agent launched|Task launched|<retrieval_status>(?!success)|Command running in background)", re.I
)
_AGENT_ID = re.compile(r"^agentId: .*$|<usage>[^<]{0,400}</usage>", re.M)
_WORDS = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was looked at, with what it defines."""

    path: str
    symbols: tuple[Symbol, ...]
    act: Act


def looked_at(scene: Scene) -> list[Looked]:
    """The files read in the round and not changed in it, each once, those with wanted names first."""
    changed = {change.path for change in scene.all_changes}
    reads: dict[str, Act] = {}
    for act in scene.acts:
        if (
            act.verb == "read"
            and not act.failed
            and act.fresh
            and act.path
            and act.path not in changed
            and not _ASIDE.search(act.path)
        ):
            reads.setdefault(act.path, act)
    wanted = wanted_words(scene)
    found = []
    for number, (path, act) in enumerate(reads.items()):
        text, start = file_text(act) if number < OUTLINED else ("", 1)
        found.append(Looked(path, tuple(_ranked(definitions(text, path, start), wanted)), act))
    return found


def wanted_words(scene: Scene) -> set[str]:
    """The words that this round is about: asked for, concluded with, searched for."""
    patterns = " ".join(act.text("pattern", "query")[:200] for act in scene.acts[:200] if act.verb == "search")
    return set(_WORDS.findall(f"{scene.ask} {scene.message[:6000]} {patterns}"))


def _ranked(symbols: Iterable[Symbol], wanted: set[str]) -> list[Symbol]:
    """Symbols that the round is about first; small ones are left out of large files."""
    unique = list(
        {symbol.name: symbol for symbol in symbols if symbol.kind not in ("key", "selector", "test")}.values()
    )
    named = [symbol for symbol in unique if symbol.name.rsplit(".", 1)[-1] in wanted]
    others = [symbol for symbol in unique if symbol not in named and symbol.indent == 0 and symbol.kind != "constant"]
    return named[:6] + others[: max(4 - len(named), 0)]


def outline_fact(looked: Looked) -> str:
    """A file and what was seen in it."""
    names = [f"{code(symbol.name, 60)} (line {symbol.line})" for symbol in looked.symbols]
    if language(looked.path) in PROSE | CONFIG:
        names = [f"“{clip(symbol.name, 50)}”" for symbol in looked.symbols[:3]]
    return f"{looked.path}: {joined(names, 4)}" if names else ""


def search_facts(acts: Sequence[Act]) -> list[str]:
    """What searches found where: pattern -> files and lines."""
    facts = []
    for act in acts:
        pattern = act.text("pattern", "query", "regex")
        if act.verb != "search" or act.failed or not act.fresh or len(pattern) < 3:
            continue
        if places := _places(act):
            facts.append(f"{code(pattern, 60)} is in {joined(places, 4)}")
    return list(dict.fromkeys(facts))


_PLACE = re.compile(r"^(?P<path>(?:[A-Za-z]:)?[^\s:][^:\n]{0,300}):(?P<line>\d+):", re.M)


def _places(act: Act) -> list[str]:
    found: dict[str, list[str]] = {}
    for match in _PLACE.finditer(act.output[:20_000]):
        found.setdefault(act.relative(match["path"]), []).append(match["line"])
    if found:
        return [f"{path}:{','.join(lines[:3])}" for path, lines in found.items()]
    names = mapping(act.response).get("filenames")
    if not isinstance(names, list):
        names = [
            line for line in act.output[:20_000].split("\n") if "/" in line and " " not in line and ":" not in line
        ]
    return [act.relative(name) for name in names[:40] if isinstance(name, str)]


def reading_drafts(scene: Scene) -> list[Draft]:
    """At most a few drafts: the code that was read, pages, and what others reported."""
    reports = _report_drafts(scene)
    return [*_code_draft(scene, len(reports)), *_page_drafts(scene), *reports]


def _code_draft(scene: Scene, reports: int) -> list[Draft]:
    """What was read: with the conclusion, where the round was for that; else as background of a change."""
    looked = looked_at(scene)
    outlines = [fact for item in looked if (fact := outline_fact(item))]
    ended = scene.stop is not None and bool(scene.message.strip())
    if scene.all_changes or not ended:
        wanted = wanted_words(scene)
        named = [item for item in looked if any(symbol.name.rsplit(".", 1)[-1] in wanted for symbol in item.symbols)]
        # One file read on the way is no news; and without a change, whatever was read is all there is.
        enough = len(named) > 1 if scene.all_changes else bool(outlines)
        return [_background(scene, named or looked)] if enough else []
    acts = [act for act in scene.acts if act.fresh and act.verb in ("read", "search", "list") and not act.failed]
    told = conclusion(scene.message, 600, 4)
    done = [act for act in scene.acts if act not in acts]
    if (
        not headline(scene.message)
        or len(told) < (60 if acts else 160)
        or (done and not acts and (reports == 1 or scene.deeds or scene.outcomes))
    ):
        return []
    return [_concluded(scene, looked, outlines, told, acts)]


def _concluded(scene: Scene, looked: list[Looked], outlines: list[str], told: str, acts: list[Act]) -> Draft:
    facts = points(scene.message)[:4]
    facts += [*outlines[: 6 - len(facts)], *search_facts(scene.acts)[:2]]
    return Draft(
        rank=1,
        type="discovery",
        title=headline(scene.message),
        subtitle=f"Asked: {scene.ask}" if scene.ask else "",
        narrative=told,
        facts=facts,
        concepts=["how-it-works"],
        read=[item.path for item in looked],
        acts=acts,
        events=[scene.stop.id] if scene.stop else [],
    )


def _background(scene: Scene, looked: Sequence[Looked]) -> Draft:
    """What was read to make the change: low in rank, because the change says most of it."""
    named = [item for item in looked if item.symbols]
    heads = [f"{code(item.symbols[0].name, 40)} ({short(item.path, 30)})" for item in named]
    title = f"Where to look: {joined(heads, 2)}"
    return Draft(
        rank=5,
        type="discovery",
        title=title,
        subtitle=f"Read for: {scene.ask}" if scene.ask else "",
        narrative=f"Files that were read and left as they are: {joined([item.path for item in looked], 6)}.",
        facts=[*[outline_fact(item) for item in named][:4], *search_facts(scene.acts)[:2]],
        concepts=["how-it-works"],
        read=[item.path for item in looked],
        acts=[item.act for item in looked],
    )


def _page_drafts(scene: Scene) -> list[Draft]:
    pages = [
        act
        for act in scene.acts
        if act.fresh and act.verb in ("fetch", "web") and not act.failed and len(act.output.strip()) > 40
    ]
    drafts = []
    for act in pages[:3]:
        source = act.text("url", "query", "prompt")
        host = urlsplit(source).netloc if act.verb == "fetch" and "://" in source[:10] else f"“{clip(source, 40)}”"
        body = re.sub(
            r"^Web search results for query:.*$|^Links: .*$|^REMINDER:.*$", "", act.output[:20_000], flags=re.M
        )
        drafts.append(
            Draft(
                rank=3,
                type="discovery",
                title=f"{host}: {headline(body) or conclusion(body, 80, 1)}",
                subtitle=tidy(source, 160),
                narrative=conclusion(body, 500, 3),
                facts=[f"Source: {tidy(source, 180)}", *points(body)[:4]],
                concepts=["how-it-works"],
                acts=[act],
            )
        )
    return drafts


def _report_drafts(scene: Scene) -> list[Draft]:
    """What subagents and servers answered, in the first sentences of their conclusions."""
    drafts: list[Draft] = []
    seen: set[str] = set()
    for about, body, act, event_id in _reports(scene):
        told = conclusion(body, 500, 3)
        if len(told) < 30 or told[:80] in seen:
            continue
        seen.add(told[:80])
        drafts.append(
            Draft(
                rank=2 if act is None or act.verb == "delegate" else 4,
                type="discovery",
                title=": ".join(filter(None, [about, headline(body) or conclusion(body, 80, 1)])),
                subtitle=f"Asked: {scene.ask}" if scene.ask else "",
                narrative=told,
                facts=points(body)[:6],
                concepts=["how-it-works"],
                acts=[act] if act else [],
                events=[] if act else [event_id],
            )
        )
    return drafts[:4]


def _reports(scene: Scene) -> Iterable[tuple[str, str, Act | None, int]]:
    for act in scene.acts:
        if not act.fresh or act.failed or act.verb not in ("delegate", "ask") or _LAUNCHED.match(act.output):
            continue
        body = _AGENT_ID.sub("", act.output.partition("--- RESULT ---")[2] or act.output)
        body = body.replace(f"{act.home}/", "") if act.home else body
        if act.verb == "delegate":
            yield clip(act.text("description"), 50), body, act, act.id
        elif not body.lstrip().startswith(("{", "[", "<")):
            parts = act.tool.split("__")
            yield (parts[1] if len(parts) > 2 else ""), body, act, act.id
    for event in scene.round.events:
        payload = mapping(event.payload)
        said = text_of(payload.get("last_assistant_message"))[:40_000]
        # What compacts a conversation reports like a subagent; it tells what we have told already.
        if event.kind == "subagent_stop" and not said.lstrip().startswith(("<analysis>", "<summary>")):
            kind = payload.get("agent_type")
            yield (
                (clip(kind, 40) if isinstance(kind, str) else ""),
                said,
                None,
                event.id,
            )
