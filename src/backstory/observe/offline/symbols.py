"""Symbols: the definitions in a piece of source text, by one pattern per family of languages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

#: What is searched of one text, and how far up for the definition that encloses a line.
TEXT_LIMIT = 60_000
ABOVE_LIMIT = 600


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition: its name, what it is, and where."""

    name: str
    kind: str
    line: int  #: from 1
    indent: int


# Every quantifier is bounded or anchored at a line's start, so that no text takes more than linear time.
# A group's name is the kind; a trailing digit only keeps the names apart.
_JS = r"""(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+)?(?:abstract[ \t]+)?(?:
    (?:async[ \t]+)?function[ \t]*\*?[ \t]*(?P<function>[\w$]+)
  | class[ \t]+(?P<class>[\w$]+)
  | (?:interface|enum|namespace)[ \t]+(?P<type>[\w$]+)
  | type[ \t]+(?P<type2>[\w$]+)(?=[ \t]*[=<])
  | (?:const|let|var)[ \t]+(?P<function2>[\w$]+)[ \t]*(?::[^=\n]{1,120})?=[ \t]*(?:async[ \t]*)?
      (?:function\b|\([^()\n]{0,200}\)[ \t]*(?::[^=\n]{1,80})?=>|[\w$]{1,60}[ \t]*=>|(?:React\.)?(?:memo
        |forwardRef|useCallback|styled)\b)
  | const[ \t]+(?P<constant>[\w$]+)(?=[ \t]*[:=])
  | (?:describe|it|test)(?:\.\w{1,20})?\([ \t]*['"`](?P<test>[^'"`\n]{1,100})
  | (?:(?:public|private|protected|static|async|override|get|set)[ \t]+){0,4}
      (?!(?:if|for|while|switch|catch|function|return|with|await|else)\b)
        (?P<method>[\w$]{1,60})\([^()\n]{0,200}\)[ \t]*(?::[^{\n]{1,80})?\{
)"""
_GO = r"""(?:
    func[ \t]+(?:\([ \t]*(?:\w{1,60}[ \t]+)?\*?(?P<owner>\w{1,80})[^)\n]{0,80}\)[ \t]*)?(?P<function>\w+)
  | type[ \t]+(?P<type>\w+) | (?:const|var)[ \t]+(?P<constant>\w+) )"""
_RUST = r"""(?:pub(?:\([^)\n]{1,40}\))?[ \t]+)?(?:default[ \t]+)?(?:
    (?:(?:async|const|unsafe|extern(?:[ \t]+"[^"\n]{1,20}")?)[ \t]+){0,3}fn[ \t]+(?P<function>\w+)
  | (?:struct|enum|trait|union|type)[ \t]+(?P<type>\w+) | mod[ \t]+(?P<module>\w+) | macro_rules![ \t]+(?P<macro>\w+)
  | impl(?:<[^>\n]{1,80}>)?[ \t]+(?:[^{\n]{1,100}[ \t]for[ \t]+)?(?P<type2>\w+) | (?:const|static)[ \t]+
    (?:mut[ \t]+)?(?P<constant>[A-Z_]\w+) )"""
_JAVA = r"""(?:@\w{1,60}[ \t]+)?(?:(?:public|private|protected|internal|static|final|abstract|sealed|override
  |open|data|async|virtual|inline|suspend
    |export|mutating|readonly|partial|default|synchronized|unsafe|lateinit|companion|case)[ \t]+){0,6}(?:
    (?:class|interface|enum(?:[ \t]+class)?|record|object|struct|protocol|trait|extension|namespace)[ \t]+(?P<class>\w+)
  | (?:fun|func|def)[ \t]+(?:<[^>\n]{1,60}>[ \t]+)?(?:\w{1,60}\.)?(?P<function>\w+)
  | (?!(?:return|new|throw|else|await|yield|if|for|while|switch|catch|using)\b)[\w<>\[\],.?]{1,80}[ \t]+
    (?P<method>\w{1,80})[ \t]*\([^;\n]{0,200}\)?[ \t\w,.]{0,80}\{?[ \t]*$ )"""
_C = r"""(?:
    \#[ \t]*define[ \t]+(?P<macro>\w+)
  | (?:typedef[ \t]+)?(?:struct|class|enum(?:[ \t]+class)?|union|namespace)[ \t]+(?P<type>\w+)
  | (?!(?:return|else|typedef|if|for|while|switch|using|case)\b)(?:[\w:*&<>~]{1,60}[ \t]+){1,5}[*&]{0,3}
    (?P<function>[\w:~]{1,80})\([^;{}\n]{0,200}\)?[ \t\w]{0,40}\{?[ \t]*$ )"""
_SQL = r"""(?:
    create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:temp(?:orary)?[ \t]+|virtual[ \t]+|unique[ \t]+|materialized[ \t]+)?
      (?:table|view|index|function|procedure|trigger|type|schema)[ \t]+
        (?:if[ \t]+not[ \t]+exists[ \t]+)?["`\[]?(?P<table>[\w.]+)
  | (?:alter|drop)[ \t]+(?:table|view|index)[ \t]+(?:if[ \t]+exists[ \t]+)?["`\[]?(?P<table2>[\w.]+)
    | --[ \t]*name:[ \t]*(?P<query>\w+) )"""

_FAMILIES = {
    "py pyi pyx": r"""(?: (?:async[ \t]+)?def[ \t]+(?P<function>\w+) | class[ \t]+(?P<class>\w+)
        | (?P<constant>[A-Z][A-Z0-9_]{2,60})[ \t]*(?::[^=\n]{1,80})?=(?!=) )""",
    "js jsx ts tsx mjs cjs mts cts vue svelte astro": _JS,
    "go": _GO,
    "rs": _RUST,
    "java kt kts cs swift scala dart groovy gradle": _JAVA,
    "c h cc cpp cxx hpp hh m mm ino cu": _C,
    "rb rake": r"(?: def[ \t]+(?:self\.)?(?P<function>[\w?!=]+) | (?:class|module)[ \t]+(?P<class>[\w:]+) )",
    "php": r"""(?:(?:public|private|protected|static|abstract|final|readonly)[ \t]+){0,4}(?:
        function[ \t]+&?(?P<function>\w+) | (?:class|interface|trait|enum)[ \t]+(?P<class>\w+) | const[ \t]+
          (?P<constant>\w+) )""",
    "ex exs": r"(?: defp?[ \t]+(?P<function>[\w?!]+) | defmodule[ \t]+(?P<class>[\w.]+) )",
    "lua": r"(?:local[ \t]+)?function[ \t]+(?P<function>[\w.:]+)",
    "sh bash zsh fish bats": r"""(?: function[ \t]+(?P<function>[\w:-]+)
        | (?P<function2>[\w:-]{1,80})[ \t]*\(\)[ \t]*\{? )""",
    "sql": _SQL,
    "proto graphql gql": r"""(?:extend[ \t]+)?(?:
        (?:message|service|enum|type|interface|input|scalar|union)[ \t]+(?P<type>\w+) | rpc[ \t]+(?P<function>\w+) )""",
    "tf hcl": r"""(?: (?:resource|data)[ \t]+"(?P<owner>\w{1,80})"[ \t]+"(?P<resource>[\w-]+)" | (?:variable
      |module|output|provider)[ \t]+"(?P<resource2>[\w-]+)" )""",
    "css scss less sass": r"(?![@}*/]|//)(?P<selector>[.#:\w\[&*][^{};\n]{0,100}?)[ \t]*\{",
    "md markdown mdx rst": r"\#{1,6}[ \t]+(?P<heading>[^\n]{1,120})",
    "toml ini cfg": r"""(?: \[{1,2}(?P<section>[^\]\n]{1,80})\] | (?P<key>[\w."-]{1,80})[ \t]*= )""",
    "yaml yml": r"""(?:-[ \t]+)?(?P<key>[\w./"'-]{1,80}):(?=[ \t\r]|$)""",
    "json jsonc json5": r'"(?P<key>[^"\n]{1,80})"[ \t]*:',
    "makefile": r"(?P<target>[\w./-]{1,60})[ \t]*:(?!=)",
}
_COMPILED: dict[str, re.Pattern[str]] = {}
for _names, _pattern in _FAMILIES.items():
    _whole = re.compile(rf"^(?P<indent>[ \t]{{0,60}}){_pattern}", re.M | re.X | (re.I if _names == "sql" else 0))
    _COMPILED |= dict.fromkeys(_names.split(), _whole)

#: Kinds too small to be told one by one, and files whose keys are their content.
CONFIG = frozenset(["toml", "ini", "cfg", "yaml", "yml", "json", "jsonc", "json5"])
PROSE = frozenset(["md", "markdown", "mdx", "rst"])
_TOP_ONLY = frozenset(("constant", "macro"))


def language(path: str) -> str:
    """The extension that a path's family goes by."""
    name = posixpath.basename(path).lower()
    if name in ("makefile", "gnumakefile", "justfile"):
        return "makefile"
    return name.rpartition(".")[2] if "." in name else ""


def definitions(text: str, path: str, start: int = 1) -> list[Symbol]:
    """The definitions in a text, in order; start is the number of its first line."""
    pattern = _COMPILED.get(language(path))
    if pattern is None or not text:
        return []
    text, found, line, at = text[:TEXT_LIMIT], [], start, 0
    for match in pattern.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if symbol := _symbol(match, line):
            found.append(symbol)
    return found


def _symbol(match: re.Match[str], line: int) -> Symbol | None:
    groups = {key: value for key, value in match.groupdict().items() if value is not None}
    indent = len(groups.pop("indent", "").expandtabs(4))
    owner = groups.pop("owner", "")
    kind, name = next(iter(groups.items()), ("", ""))
    kind, name = kind.rstrip("0123456789"), name.strip().strip("\"'")
    if not name or (indent and kind in _TOP_ONLY):
        return None
    return Symbol(f"{owner}.{name}" if owner else name, kind, line, indent)


def symbol_in(line: str, path: str) -> Symbol | None:
    """The definition that this line begins, if it does."""
    pattern = _COMPILED.get(language(path))
    match = pattern.match(line[:400]) if pattern else None
    return _symbol(match, 1) if match else None


def indent_of(line: str) -> int:
    """How far a line is indented, in columns."""
    return len(line[:200].expandtabs(4)) - len(line[:200].expandtabs(4).lstrip())


def enclosing(above: Sequence[str], indent: int, path: str) -> str:
    """The definition that a line of this indent stands in, given the lines above it: `Class.method`, or nothing."""
    prose = language(path) in PROSE or language(path) in ("toml", "ini", "cfg")
    names: list[str] = []
    for line in reversed(above[-ABOVE_LIMIT:]):
        if not line.strip() or (not prose and indent_of(line) >= indent):
            continue
        symbol = symbol_in(line, path)
        if symbol and (not prose or symbol.kind in ("heading", "section")):
            names.append(symbol.name)
            indent = symbol.indent
        elif not prose and not line.lstrip().startswith(")"):  # the end of a signature still belongs to it
            indent = min(indent, max(indent_of(line), 1))
        if names and (prose or indent == 0 or len(names) == 2):
            break
    return ".".join(reversed(names))
