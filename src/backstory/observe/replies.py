"""Parses the answer of a model. It should be XML; code fences, prose around it and unclosed tags are tolerated."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from backstory.errors import BackstoryError
from backstory.labels import names_user, without_commits, without_label
from backstory.model import ClaimMark, Observation, Round, Summary
from backstory.observe.modes import Mode
from backstory.observe.offline.acts import read_acts, relative
from backstory.observe.offline.edits import read_changes
from backstory.observe.offline.statements import COMMIT_LABEL, own_words
from backstory.store.replaceable import Standing, words_of
from backstory.text import cut, harmless, one_line

#: Characters of an answer that are parsed. This and the limits below keep a model that rambles out of the memory.
ANSWER_CHARS = 400_000
#: Maximum number of observations of an answer, and of the items of an observation.
MAX_OBSERVATIONS = 80
MAX_FACTS = 12
MAX_CONCEPTS = 8
MAX_FILES = 40
#: Maximum characters of the texts of an observation.
TITLE_CHARS = 140
SUBTITLE_CHARS = 300
NARRATIVE_CHARS = 2000
FACT_CHARS = 400
PATH_CHARS = 400
#: Maximum characters of each field of a summary.
SUMMARY_FIELD_CHARS = 2000
_TEXTS = ("type", "title", "subtitle", "narrative", "events", "replaces")
_LISTS = {"facts": "fact", "concepts": "concept", "files_read": "file", "files_modified": "file"}
_SUMMARY_FIELDS = tuple(field.name for field in fields(Summary))
_FIELD_TAGS = "|".join((*_TEXTS, *_LISTS, *_SUMMARY_FIELDS, "observation", "summary", "memory", "skip_summary"))
_BLOCK = re.compile(r"<(observation|summary)\b([^<>]{0,300})>", re.IGNORECASE)
_SKIP = re.compile(r"<skip[_-]summary\b", re.IGNORECASE)
_MEMORY = re.compile(r"<memory\b([^<>]{0,300})>", re.IGNORECASE)
_MEMORY_END = re.compile(r"</memory\s*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|$)", re.DOTALL)
#: A tag inside a text. `a < b > c` is not one: after a blank, only closing tags and our own tags count.
_TAGS = f"{_FIELD_TAGS}|round|known|event|said"
_TAG = re.compile(rf"</?[a-z_]+(?:\s[^<>]{{0,200}})?/?>|<\s*/\s*[a-z_]+\s*>|<\s*(?:{_TAGS})\s*/?\s*>", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
#: Only numbers. Other words might say that the numbered observations still hold.
_NUMBERS = re.compile(r"(?:[\s\d,;#]|and\b)*", re.IGNORECASE)
#: Commands that may change the files they name.
_WRITES = re.compile(
    r">|\b(?:tee|mv|cp|rm|ln|touch|patch|install|mkdir|truncate|dd|rsync|unzip|tar|curl|wget)\b|\bsed\b.*\s-i|\bperl\b.*\s-\w*i"
    r"|\bgit\s+(?:mv|rm|apply|am|checkout|restore|stash|merge|rebase|cherry-pick|revert|reset|pull)\b"
    r"|--fix\b|--write\b|\b(?:fmt|format|gofmt|generate|codegen|init|add|remove|tidy)\b",
    re.DOTALL,
)


class UnreadableAnswer(BackstoryError):
    """The answer of the model could not be parsed."""


class ForeignAnswer(UnreadableAnswer):
    """The answer of the model belongs to another question."""


def has_observation(text: str) -> bool:
    """Whether an answer has at least one complete observation."""
    return any(kind == "observation" and is_whole for kind, _, _, is_whole in _blocks(text[:ANSWER_CHARS]))


class ParsedAnswer(NamedTuple):
    """What an answer says about a round."""

    observations: tuple[Observation, ...]
    summary: Summary | None
    skips_summary: bool


def parse_answer(text: str, round: Round, mode: Mode, mark: str = "", known: Sequence[Standing] = ()) -> ParsedAnswer:
    """Parse an answer about a round. Raises `UnreadableAnswer` if nothing in it can be parsed. Its observations may
    replace those in `known`."""
    text = _CDATA.sub(lambda m: html.escape(m[1], quote=False), text[:ANSWER_CHARS])
    text, has_memory_tag = _text_of_round(text, mark)
    blocks = list(_blocks(text))
    skips = _SKIP.search(text) is not None
    if not blocks and not skips and not has_memory_tag:
        raise UnreadableAnswer
    evidence = Evidence(round)
    parsed = (
        _observation(body, attributes, round, mode, evidence, known)
        for kind, attributes, body, _ in blocks
        if kind == "observation"
    )
    observations = tuple(filter(None, parsed))[:MAX_OBSERVATIONS]
    summaries = [summary for kind, _, body, _ in blocks if kind == "summary" and (summary := _summary(body))]
    if blocks and not observations and not summaries and not skips:
        raise UnreadableAnswer
    return ParsedAnswer(observations, summaries[-1] if summaries else None, skips)


def _text_of_round(text: str, mark: str) -> tuple[str, bool]:
    """The part of an answer about the round with this mark, and whether there is a `<memory>` tag. Parts without a mark
    count only if no part has ours. Raises `ForeignAnswer` if every part is about another round."""
    begins = list(_MEMORY.finditer(text))
    if not begins or not mark:
        return text, bool(begins)
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    parts: dict[str, list[str]] = {}
    for begin, end in zip(begins, ends, strict=True):
        part_mark = _attributes(begin[1]).get("round", "").strip()
        parts.setdefault(part_mark, []).append(text[begin.end() : end])
    if mark in parts:
        return "\n".join(parts[mark]), True
    if "" not in parts:
        raise ForeignAnswer
    return "\n".join((text[: begins[0].start()], *parts[""])), True


def _blocks(text: str) -> Iterable[tuple[str, Mapping[str, str], str, bool]]:
    """Each observation and summary: its kind, attributes and body, and whether it is closed. One that is not closed
    ends where the next begins."""
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
    """The text of a field, up to its closing tag or, if there is none, up to the next field."""
    start = re.search(rf"<{name}\b[^<>]{{0,300}}?(/?)>", body, re.IGNORECASE)
    if start is None or start[1]:
        return ""
    rest = body[start.end() :]
    end = re.search(rf"</{name}\s*>", rest, re.IGNORECASE)
    end = end or re.search(rf"</?(?:{_FIELD_TAGS})\b[^<>]{{0,300}}>", rest, re.IGNORECASE)
    return rest[: end.start()] if end else rest


def _text(raw: str, limit: int) -> str:
    """The text of a field without tags and entities, in one line, cut to `limit`."""
    bare = _TAG.sub(" ", harmless(_TAG.sub(" ", raw)))  # twice, because invisible characters may split a tag
    return cut(without_commits(one_line(harmless(html.unescape(html.unescape(bare))))), limit)


def _items(body: str, name: str, limit: int) -> list[str]:
    """The items of a list. If they have no tags, each line is an item."""
    raw = _field(body, name)
    item = _LISTS[name]
    parts = re.split(rf"</?{item}\b[^<>]{{0,300}}>", raw, flags=re.IGNORECASE)
    if len(parts) == 1:
        parts = [_BULLET.sub("", line) for line in raw.splitlines()]
    return list(dict.fromkeys(text for part in parts if (text := _text(part, limit))))


def _observation(
    body: str, attributes: Mapping[str, str], round: Round, mode: Mode, evidence: Evidence, known: Sequence[Standing]
) -> Observation | None:
    texts = {name: _field(body, name) or attributes.get(name, "") for name in _TEXTS}
    said = _plain(own_words(round.prompt))
    marked = [_claimed(fact, said) for fact in _items(body, "facts", FACT_CHARS)[:MAX_FACTS]]
    facts = [fact for _, fact in marked]
    subtitle, narrative = _text(texts["subtitle"], SUBTITLE_CHARS), _text(texts["narrative"], NARRATIVE_CHARS)
    title = _text(texts["title"], TITLE_CHARS) or cut(subtitle or next(iter(facts), "") or narrative, TITLE_CHARS)
    if not title:
        return None
    mark, title, is_false = *_claimed(title, said), _is_false_claim(title, said)
    told = words_of(title)  # what only repeats the title says nothing
    subtitle = "" if words_of(subtitle) <= told else subtitle
    marked = [(mark, fact) for mark, fact in marked if not words_of(fact) <= told]
    read_files = [evidence.relative_path(path) for path in _items(body, "files_read", PATH_CHARS)]
    changed = map(evidence.changed_path, _items(body, "files_modified", PATH_CHARS))
    modified = tuple(dict.fromkeys(filter(None, changed)))[:MAX_FILES]
    return Observation(
        type=_type("discovery" if is_false else texts["type"], mode),
        title=title,
        subtitle=subtitle,
        narrative=narrative,
        facts=tuple(fact for _, fact in marked),
        concepts=_concepts(_items(body, "concepts", 120), mode)[:MAX_CONCEPTS],
        files_read=tuple(dict.fromkeys(path for path in read_files if path not in modified))[:MAX_FILES],
        files_modified=modified,
        event_ids=_source_events(texts["events"], round, (*modified, *read_files)),
        replaces=_replaced(texts["replaces"], "\n".join((title, subtitle, narrative, *facts, *modified)), known),
        mark=mark,
        fact_marks=tuple(mark for mark, _ in marked),
    )


def _claimed(text: str, said: str) -> tuple[ClaimMark, str]:
    """The mark that a model claims for a text, and the text. It is the user's word only if the prompt `said` it."""
    label, rest = without_label(text)
    if not label or not rest:
        return ClaimMark.NONE, COMMIT_LABEL.sub("", text)
    named = next((mark for mark in ClaimMark if mark and label.startswith((mark, f"the {mark}"))), ClaimMark.NONE)
    return (ClaimMark.NONE if _is_false_claim(text, said) else named), rest


def _is_false_claim(text: str, said: str) -> bool:
    """Whether a model tells as the user's word what the user did not say."""
    label, rest = without_label(text)
    is_users = names_user(label)
    return is_users and f" {_plain(rest)} " not in f" {said} "


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _replaced(numbers: str, content: str, known: Sequence[Standing]) -> tuple[int, ...]:
    """The known observations that a new one replaces. They must share a word with it. Other numbers are ignored."""
    numbers = _TAG.sub(" ", numbers)
    if not known or not _NUMBERS.fullmatch(numbers):
        return ()
    named, words = {int(number) for number in re.findall(r"(?<!\d)\d{1,18}(?!\d)", numbers)}, words_of(content)
    return tuple(one.id for one in known if one.id in named and one.words & words)


def _type(raw: str, mode: Mode) -> str:
    word = re.search(r"[a-z][a-z0-9_-]*", _text(raw, 80).lower())
    known = tuple(mode.types)
    return word[0] if word and word[0] in known else "change" if "change" in known else known[-1]


def _concepts(texts: Iterable[str], mode: Mode) -> tuple[str, ...]:
    """The concepts that the mode has. Others are dropped: a filter by concept would not find their kind together."""
    words = (re.sub(r"[^\w-]+", "-", text.partition(":")[0].strip().lower()).strip("-") for text in texts)
    return tuple(dict.fromkeys(word for word in words if word in mode.concepts))


def _source_events(numbers: str, round: Round, files: Iterable[str]) -> tuple[int, ...]:
    """The events that an observation names, else those that mention its files, else all."""
    named = {int(number) for number in re.findall(r"\d{1,4}", numbers)}
    sources = [event.id for at, event in enumerate(round.events, 1) if at in named]
    if not sources:
        names = {path.rpartition("/")[2] for path in files} - {""}
        sources = [e.id for e in round.events if any(name in str(e.payload.get("tool_input")) for name in names)]
    return tuple(sources or [event.id for event in round.events])


def _summary(body: str) -> Summary | None:
    texts = {name: _text(_field(body, name), SUMMARY_FIELD_CHARS) for name in _SUMMARY_FIELDS}
    return Summary(**texts) if any(texts.values()) else None


class Evidence:
    """What the events of a round show about changed files."""

    def __init__(self, round: Round) -> None:
        self._home = round.home
        acts = read_acts(round)
        changes = {change.path for change in read_changes(acts)}
        edited = {act.path for act in acts if act.verb in ("edit", "write") and not act.failed and act.path}
        self._changed = changes | edited
        ran = [act.command for act in acts if act.verb == "run" and not act.failed]
        self._commands = [command for command in ran if _WRITES.search(command)]

    def relative_path(self, path: str) -> str:
        """A path relative to the root of the repository, as the model was told."""
        return relative(path, self._home, self._home)

    def changed_path(self, path: str) -> str:
        """The path of a file if an event shows that it was changed, else an empty string."""
        path = self.relative_path(path)
        for known in sorted(self._changed):
            if known == path or known.endswith(f"/{path}") or path.endswith(f"/{known}"):
                return known
        name = path.rstrip("/").rpartition("/")[2]
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") if name else None
        return path if word and any(word.search(command) for command in self._commands) else ""
