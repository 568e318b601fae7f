"""Reads what a model answered: XML by intent, forgiving of fences, prose, unclosed tags, entities and attributes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from backstory.errors import BackstoryError
from backstory.model import Observation, Round, Summary
from backstory.observe.modes import Mode
from backstory.observe.offline.acts import Act, read_acts, relative
from backstory.observe.offline.edits import read_changes
from backstory.store.replaceable import Standing, words_of
from backstory.text import cut, harmless, one_line

#: Characters of an answer that are read. The bounds below keep a model that rambles out of the memory.
ANSWER = 400_000
#: Observations of one answer.
MOST = 80
#: Facts, concepts and files of an observation.
FACTS = 12
CONCEPTS = 8
FILES = 40
#: Characters of the texts of an observation.
TITLE = 160
SUBTITLE = 300
NARRATIVE = 2000
FACT = 400
PATH = 400
#: Characters of each field of a summary.
FIELD = 2000
_TEXTS = ("type", "title", "subtitle", "narrative", "events", "replaces")
_LISTS = {"facts": "fact", "concepts": "concept", "files_read": "file", "files_modified": "file"}
_PARTS = tuple(field.name for field in fields(Summary))
_ENDS = "|".join((*_TEXTS, *_LISTS, *_PARTS, "observation", "summary", "memory", "skip_summary"))
_BLOCK = re.compile(r"<(observation|summary)\b([^<>]{0,300})>", re.IGNORECASE)
_SKIP = re.compile(r"<skip[_-]summary\b", re.IGNORECASE)
_MEMORY = re.compile(r"<memory\b([^<>]{0,300})>", re.IGNORECASE)
_MEMORY_END = re.compile(r"</memory\s*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|$)", re.DOTALL)
#: A tag in a text. With blanks in its beginning it is one only if it closes, or is one of ours: `a < b > c` is none.
_OURS = f"{_ENDS}|round|known|event|said"
_TAG = re.compile(rf"</?[a-z_]+(?:\s[^<>]{{0,200}})?/?>|<\s*/\s*[a-z_]+\s*>|<\s*(?:{_OURS})\s*/?\s*>", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
#: Numbers and nothing else: words around them may say that they hold.
_NUMBERS = re.compile(r"(?:[\s\d,;#]|and\b)*", re.IGNORECASE)
# Commands that change the files they name.
_WRITES = re.compile(
    r">|\b(?:tee|mv|cp|rm|ln|touch|patch|install|mkdir|truncate|dd|rsync|unzip|tar|curl|wget)\b|\bsed\b.*\s-i|\bperl\b.*\s-\w*i"
    r"|\bgit\s+(?:mv|rm|apply|am|checkout|restore|stash|merge|rebase|cherry-pick|revert|reset|pull)\b"
    r"|--fix\b|--write\b|\b(?:fmt|format|gofmt|generate|codegen|init|add|remove|tidy)\b",
    re.DOTALL,
)


class UnreadableAnswer(BackstoryError):
    """The model's answer was not in the form that was asked for."""


class ForeignAnswer(UnreadableAnswer):
    """The model's answer belongs to another question."""


def has_observation(text: str) -> bool:
    """Whether an answer has at least one observation from beginning to end."""
    return any(kind == "observation" and is_whole for kind, _, _, is_whole in _blocks(text[:ANSWER]))


class Read:
    """An answer, read."""

    def __init__(self, observations: tuple[Observation, ...], summary: Summary | None, skips_summary: bool) -> None:
        self.observations, self.summary, self.skips_summary = observations, summary, skips_summary


def read(text: str, round: Round, mode: Mode, mark: str = "", known: Sequence[Standing] = ()) -> Read:
    """What an answer says about a round; `Unreadable` if it says nothing that can be read. It may replace what it was
    shown as `known`."""
    text = _CDATA.sub(lambda m: html.escape(m[1], quote=False), text[:ANSWER])
    text, begun = _of_round(text, mark)
    blocks = list(_blocks(text))
    skips = _SKIP.search(text) is not None
    if not blocks and not skips and not begun:
        raise UnreadableAnswer
    evidence = Evidence(round)
    told = [
        _observation(body, given, round, mode, evidence, known)
        for kind, given, body, _ in blocks
        if kind == "observation"
    ]
    found = [_summary(body) for kind, _, body, _ in blocks if kind == "summary"]
    kept = tuple(seen for seen in told if seen)[:MOST]
    if blocks and not kept and not any(found) and not skips:
        raise UnreadableAnswer
    return Read(kept, next((summary for summary in reversed(found) if summary), None), skips)


def _of_round(text: str, mark: str) -> tuple[str, bool]:
    """What an answer says of the round with this mark, and whether it has a `<memory>`; `Stranger` if all it says is of
    others. Where parts bear our mark, only they count."""
    begins = list(_MEMORY.finditer(text))
    if not begins or not mark:
        return text, bool(begins)
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    parts: dict[str, list[str]] = {}
    for begin, end in zip(begins, ends, strict=True):
        of = _attributes(begin[1]).get("round", "").strip()
        parts.setdefault(of, []).append(text[begin.end() : end])
    if mark in parts:
        return "\n".join(parts[mark]), True
    if "" not in parts:
        raise ForeignAnswer
    return "\n".join((text[: begins[0].start()], *parts[""])), True


def _blocks(text: str) -> Iterable[tuple[str, Mapping[str, str], str, bool]]:
    """Each observation and summary: to its end, or to where the next begins; and whether it has an end."""
    starts = list(_BLOCK.finditer(text))
    for at, start in enumerate(starts):
        limit = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        if start[2].rstrip().endswith("/"):
            continue
        kind = start[1].lower()
        end = re.compile(rf"</{kind}\s*>", re.IGNORECASE).search(text, start.end(), limit)
        end = end or _MEMORY_END.search(text, start.end(), limit)
        yield kind, _attributes(start[2]), text[start.end() : end.start() if end else limit], end is not None


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): html.unescape(one or two) for name, one, two in _ATTRIBUTE.findall(text)}


def _field(body: str, name: str) -> str:
    """A field's text: to its closing tag, or, where that is missing, to the next field."""
    start = re.search(rf"<{name}\b[^<>]{{0,300}}?(/?)>", body, re.IGNORECASE)
    if start is None or start[1]:
        return ""
    rest = body[start.end() :]
    end = re.search(rf"</{name}\s*>", rest, re.IGNORECASE)
    end = end or re.search(rf"</?(?:{_ENDS})\b[^<>]{{0,300}}>", rest, re.IGNORECASE)
    return rest[: end.start()] if end else rest


def _text(raw: str, limit: int) -> str:
    """The words of a field: no tags of ours in it, entities resolved, one line, bounded."""
    bare = _TAG.sub(" ", harmless(_TAG.sub(" ", raw)))  # twice: invisible characters may have split a tag
    return cut(one_line(harmless(html.unescape(html.unescape(bare)))), limit)


def _items(body: str, name: str, limit: int) -> list[str]:
    """A list's items; without tags of their own they are its lines."""
    raw = _field(body, name)
    item = _LISTS[name]
    parts = re.split(rf"</?{item}\b[^<>]{{0,300}}>", raw, flags=re.IGNORECASE)
    if len(parts) == 1:
        parts = [_BULLET.sub("", line) for line in raw.splitlines()]
    return list(dict.fromkeys(text for part in parts if (text := _text(part, limit))))


def _observation(
    body: str, given: Mapping[str, str], round: Round, mode: Mode, evidence: Evidence, known: Sequence[Standing]
) -> Observation | None:
    texts = {name: _field(body, name) or given.get(name, "") for name in _TEXTS}
    facts = _items(body, "facts", FACT)[:FACTS]
    subtitle, narrative = _text(texts["subtitle"], SUBTITLE), _text(texts["narrative"], NARRATIVE)
    title = _text(texts["title"], TITLE) or cut(subtitle or next(iter(facts), "") or narrative, TITLE)
    if not title:
        return None
    read_files = [evidence.named(path) for path in _items(body, "files_read", PATH)]
    changed = map(evidence.changed, _items(body, "files_modified", PATH))
    modified = tuple(dict.fromkeys(filter(None, changed)))[:FILES]
    return Observation(
        type=_type(texts["type"], mode),
        title=title,
        subtitle=subtitle,
        narrative=narrative,
        facts=tuple(facts),
        concepts=tuple(dict.fromkeys(filter(None, map(_concept, _items(body, "concepts", 120)))))[:CONCEPTS],
        files_read=tuple(dict.fromkeys(path for path in read_files if path not in modified))[:FILES],
        files_modified=modified,
        event_ids=_sources(texts["events"], round, (*modified, *read_files)),
        replaces=_replaced(texts["replaces"], "\n".join((title, subtitle, narrative, *facts, *modified)), known),
    )


def _replaced(numbers: str, says: str, known: Sequence[Standing]) -> tuple[int, ...]:
    """Of what was shown, what an observation takes the place of; it must be about the same thing at least in a word.
    Whatever else is named there is nothing to us."""
    told = _TAG.sub(" ", numbers)
    if not known or not _NUMBERS.fullmatch(told):
        return ()
    named, words = {int(number) for number in re.findall(r"(?<!\d)\d{1,18}(?!\d)", told)}, words_of(says)
    return tuple(one.id for one in known if one.id in named and one.words & words)


def _type(raw: str, mode: Mode) -> str:
    word = re.search(r"[a-z][a-z0-9_-]*", _text(raw, 80).lower())
    known = tuple(mode.types)
    return word[0] if word and word[0] in known else "change" if "change" in known else known[-1]


def _concept(text: str) -> str:
    """One that no mode knows is kept: it is a word to search by."""
    return re.sub(r"[^\w-]+", "-", text.partition(":")[0].strip().lower()).strip("-")[:60]


def _sources(numbers: str, round: Round, files: Iterable[str]) -> tuple[int, ...]:
    """The events that an observation names; else those that have to do with its files; else all."""
    named = {int(number) for number in re.findall(r"\d{1,4}", numbers)}
    found = [event.id for at, event in enumerate(round.events, 1) if at in named]
    if not found:
        names = {path.rpartition("/")[2] for path in files} - {""}
        found = [e.id for e in round.events if any(name in str(e.payload.get("tool_input")) for name in names)]
    return tuple(found or [event.id for event in round.events])


def _summary(body: str) -> Summary | None:
    told = {name: _text(_field(body, name), FIELD) for name in _PARTS}
    return Summary(**told) if any(told.values()) else None


class Evidence:
    """What the events of a round show of its files."""

    def __init__(self, round: Round) -> None:
        self._cwd = round.cwd
        acts = read_acts(round)
        changes = {change.path for change in read_changes(acts)}
        edited = {act.path for act in acts if act.verb in ("edit", "write") and not act.failed and act.path}
        self._changed = changes | edited
        self._commands = [act.command for act in acts if _may_write(act)]

    def named(self, path: str) -> str:
        """A path as paths are told here: from the project's directory."""
        return relative(path, self._cwd, self._cwd)

    def changed(self, path: str) -> str:
        """The path of a file that an event shows to have been changed, else nothing."""
        path = self.named(path)
        for known in sorted(self._changed):
            if known == path or known.endswith(f"/{path}") or path.endswith(f"/{known}"):
                return known
        name = path.rstrip("/").rpartition("/")[2]
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") if name else None
        return path if word and any(word.search(command) for command in self._commands) else ""


def _may_write(act: Act) -> bool:
    return act.verb == "run" and not act.failed and _WRITES.search(act.command) is not None
