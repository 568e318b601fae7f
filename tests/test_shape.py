"""The shape of the code: who may import whom, and how large things may grow."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.store import queries

SOURCE = Path(__file__).parent.parent / "src" / "backstory"
GROUND = {
    "batches",
    "jobs",
    "kill_switch",
    "labels",
    "launch",
    "live_settings",
    "model",
    "setting_rows",
    "settings",
    "paths",
    "errors",
    "gate",
    "ids",
    "privacy",
    "private_tags",
    "plain_tags",
    "prefilter",
    "file_digests",
    "passages",
    "pasted",
    *(
        "secret_kinds",
        "secret_formats",
        "secret_values",
        "named_secrets",
        "command_secrets",
        "cookie_secrets",
        "secret_assignments",
        "key_blocks",
        "wide_tags",
    ),
    "files",
    "project",
    "repository",
    "truncate",
    "transcript_gate",
    "text",
    "times",
    "__init__",
}
#: Modules that the hook imports without the package around them.
BARE = {
    "hook_fallback",
    "plain_tags",
    "prefilter",
    "privacy",
    "private_tags",
    "key_blocks",
    "named_secrets",
    "command_secrets",
    "cookie_secrets",
    "truncate",
} | {name for name in GROUND if name.startswith("secret_")}
ROOMS = {"sessions", "store", "agents", "groups", "capture", "observe", "recall", "exchange", "worker", "cli"}
#: room or module -> what of ours it may import beside itself
MAY_IMPORT = {
    "hook": {"plain_tags", "prefilter", "privacy"},
    "client": {"errors"},
    "mcp_bridge": set(),
    "sessions": GROUND | {"agents", "client"},
    "store": GROUND | {"sessions"},
    "agents": GROUND,
    "groups": GROUND | {"agents", "client", "sessions", "store"},
    "capture": GROUND | {"sessions", "store", "agents", "groups"},
    "observe": GROUND | {"store"},
    "recall": GROUND | {"store"},
    "exchange": GROUND | {"store"},
    "worker": GROUND | ROOMS - {"cli"},
    "cli": GROUND | ROOMS | {"client", "hook", "mcp_bridge"},
    "__main__": {"cli"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else file.stem


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "backstory":
                yield from (f"backstory.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_a_room_imports_only_what_it_may(file: Path) -> None:
    """Ground below store and agents, these below observe and recall, and worker and cli on top."""
    room = room_of(file)
    allowed = MAY_IMPORT.get(room, GROUND)
    for name in imports_of(ast.parse(file.read_text())):
        top, _, rest = name.partition(".")
        if top == "backstory":
            other = rest.partition(".")[0] or "__init__"
            assert other in {room, "__version__"} | allowed, f"{room} imports {name}"
        elif room in GROUND | {"hook", "client", "mcp_bridge"}:
            assert top in sys.stdlib_module_names or top in BARE, f"{room} imports {name}"
        elif top in {"starlette", "uvicorn"}:
            assert room == "worker", f"{room} imports {name}"
        elif top == "psycopg":
            assert file.name == "postgres.py", f"{room} imports {name}"


@pytest.mark.parametrize("name", ["hook", "mcp_bridge"])
def test_what_every_session_pays_for_imports_c_modules_only(name: str) -> None:
    """At its top a near-side program names nothing that is written in Python; `import json` alone would double it."""
    tree = ast.parse((SOURCE / f"{name}.py").read_text())
    tops = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert tops <= {*sys.builtin_module_names, "_socket"}, tops


def test_what_the_hook_needs_of_an_agent_imports_nothing() -> None:
    """It is imported without a package around it, while an agent waits."""
    for file in SOURCE.glob("agents/*/hook_fallback.py"):
        assert list(imports_of(ast.parse(file.read_text()))) == [], file.parent.name


def test_what_runs_in_a_sandbox_is_one_file() -> None:
    """There it has no package around it and nothing but the standard library."""
    names = imports_of(ast.parse((SOURCE / "groups" / "mcp_server.py").read_text()))
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_heavy_libraries_are_imported_by_those_who_need_them() -> None:
    """Nothing of the worker's start, or of a command's, loads the MCP SDK."""
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not {name.partition(".")[0] for name in imports_of(node)} & {"mcp", "mcp_types", "pydantic"}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_a_file_says_what_it_is_and_stays_small(file: Path) -> None:
    """The first line says what a file is; 400 lines a file and 60 a function are the ceiling."""
    text = file.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no first line"
    assert text.count("\n") <= 400
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_names_name_the_thing(file: Path) -> None:
    """No Manager, Helper or util: the thing has a name."""
    bad = re.compile(r"(Manager|Service|Factory|Handler|Helper|Processor|Base|Abstract|Impl)$")
    assert file.stem not in {"utils", "util", "helpers", "common", "misc"}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef):
            assert not bad.search(node.name), node.name


def test_sql_stands_in_the_store_only() -> None:
    """No other room knows SQL."""
    statement = re.compile(r"\b(SELECT\s+.+\s+FROM|INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET)\b")
    for file in FILES:
        if room_of(file) != "store":
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not statement.search(node.value), f"{file.name}: {node.value[:60]}"


def test_named_queries_are_run_in_the_store_only() -> None:
    """Other rooms call functions of the store, whose parameters and results mypy knows."""
    known = set(queries.load("sqlite")) | set(queries.load("postgres"))
    for file in FILES:
        if room_of(file) == "store":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_tx = isinstance(node.func.value, ast.Name) and node.func.value.id == "tx"
                first = node.args[0] if node.args else None
                named = isinstance(first, ast.Constant) and first.value in known
                is_query = node.func.attr in {"run", "one", "all", "script"} and (is_tx or named)
                assert not is_query, f"{file.relative_to(SOURCE)}:{node.lineno} runs a query"


def test_the_environment_is_read_in_settings_only() -> None:
    """One place decides what is set. Two near-side programs look at marks that a session carries."""
    for file in FILES:
        if file.stem not in {"settings", "hook", "launch"}:
            assert not re.search(r"os\.(environ|getenv)", file.read_text()), file.name


@pytest.mark.parametrize("file", ["shared", "sqlite", "postgres"])
def test_a_file_has_each_query_once(file: str) -> None:
    """The later one would replace the earlier one without a word."""
    text = (SOURCE / "store" / "sql" / f"{file}.sql").read_text("utf-8")
    names = re.findall(r"^-- (?:name|part): \w+$", text, re.MULTILINE)
    assert not [name for name, count in Counter(names).items() if count > 1]


def test_every_query_is_used_and_every_name_known() -> None:
    """A query that nobody calls is deleted; a call of one that is not there is found here, not in production."""
    code = "\n".join(f.read_text() for f in FILES)
    known = queries.written("sqlite") | queries.written("postgres")
    found = {f"found_{name}" for name in ("observations", "summaries", "prompts", "turns")}
    used = set(re.findall(r'"(\w+)"', code)) | found
    assert set(known) <= used, set(known) - used
    called = set(re.findall(r'\b(?:tx|self)\.(?:run|one|all)\(\s*"(\w+)"', code))
    assert called <= set(known), called - set(known)


def test_a_class_name_stands_for_one_thing() -> None:
    """Two classes of one name are told apart by nobody who searches for it."""
    names = Counter(
        node.name for file in FILES for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


#: Files outside of its own packages that may name Claude, and why.
NAMES_CLAUDE = {
    "agents/__init__.py": "the list of agents names each of them",
    "groups/archive.py": "reads transcripts of Claude Code with what was sent in the middle of a round",
    "groups/forgotten_transcripts.py": "rewrites lines of transcripts of Claude Code",
    "groups/model_env.py": "variables of Claude Code",
    "groups/names.py": "files of Claude Code in the directories of a group",
    "groups/sandbox.py": "where its program and its state are in a sandbox",
    "groups/start.py": "options and variables of the Claude Agent SDK",
    "groups/state_dir.py": "settings of Claude Code and instructions of a group",
    "groups/group_run.py": "runs the Claude Agent SDK",
    "groups/runs.py": "loads the Claude Agent SDK",
    "observe/providers/__init__.py": "the list of providers names each of them",
    "observe/model_observer.py": "hands the setting `claude_path` to the provider",
    "observe/offline/acts.py": "which agents report a command that failed as a failure",
    "observe/prices.py": "models have that name",
    "sessions/capture.py": "reports what the hooks of Claude Code would",
    "sessions/options.py": "options of the Claude Agent SDK",
    "sessions/record.py": "messages of the Claude Agent SDK",
    "sessions/recovery.py": "compares messages with a transcript of Claude Code",
    "sessions/saved.py": "reads a transcript of Claude Code",
    "sessions/run.py": "runs the Claude Agent SDK",
    "settings.py": "a provider and its setting have that name in the user's config.toml",
    "setting_rows.py": "says that only a command changes the setting `claude_path`",
    "store/claude_mem.py": "reads the database of claude-mem, another program",
    "exchange/claude_mem.py": "imports the rows of claude-mem",
    "cli/examples.py": "an example is what a person types, and names a real agent",
    "cli/exchange.py": "`backstory import claude-mem`",
    "sessions/transcript_store.py": "is a store of the Claude Agent SDK",
    "worker/serve.py": "leaves what the Claude Agent SDK logs out of the log",
    "worker/endpoints.py": "a name of a field that existing clients send",
    "private_tags.py": "the same name, and the tag of claude-mem's context",
    "prefilter.py": "the tag of claude-mem's context",
    "text.py": "the tag of claude-mem's context",
    "observe/offline/text.py": "the tag of claude-mem's context",
    "project.py": "worktrees lie in .claude/worktrees of a repository that may be gone; ground knows no agents",
    "mcp_bridge.py": "does not know which agent started it, and takes that one's variables from the worker",
}


def code_of(file: Path) -> str:
    """A file without its comments and docstrings."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def test_only_its_own_packages_name_claude() -> None:
    """Everything else goes by the rows of agents and providers; an exception that is no longer needed goes too."""
    own = ("agents/claude_code/", "observe/providers/claude")
    names = {str(file.relative_to(SOURCE)) for file in FILES if "claude" in code_of(file).lower()}
    assert {name for name in names if not name.startswith(own)} == set(NAMES_CLAUDE)


def test_a_constant_has_its_own_line() -> None:
    """So that its unit and its reason can stand beside it."""
    for file in FILES:
        if "offline" not in file.parts:
            for node in ast.parse(file.read_text()).body:
                pair = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
                assert not pair, f"{file.name}:{node.lineno}"
