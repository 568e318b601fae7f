"""Acts: an event as the rules read it, whatever agent sent it and whatever shape its payload has."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backstory.model import Event, Round
from backstory.observe.offline.text import clean_output

#: What the agents' tools do, by their names in lower case.
VERBS = {
    "run": """bash shell exec exec_command local_shell run_shell_command run_terminal_cmd run_in_terminal terminal
        execute_command powershell bashoutput""",
    "edit": """edit multiedit notebookedit replace edit_file str_replace str_replace_editor search_replace
        str_replace_based_edit_tool replace_string_in_file multi_replace_string_in_file insert_edit_into_file patch
        apply_patch applypatch update""",
    "write": "write write_file create_file write_to_file save_file",
    "read": "read read_file read_many_files view notebookread view_file open_file",
    "search": """grep search_file_content grep_search codebase_search file_search semantic_search search ripgrep lsp""",
    "list": "glob ls list_directory list_dir find_files list_files",
    "fetch": "webfetch web_fetch fetch fetch_webpage",
    "web": "websearch web_search google_web_search",
    "delegate": "task agent taskoutput agentoutput runsubagent",
    "plan": "exitplanmode exit_plan_mode",
    "skip": """todowrite todoread update_plan skill slashcommand askuserquestion listmcpresourcestool enterplanmode
        killshell taskcreate taskupdate tasklist taskget toolsearch""",
}
_VERB_OF = {name: verb for verb, names in VERBS.items() for name in names.split()}
_PATH_KEYS = ("file_path", "filePath", "notebook_path", "path", "target_file", "filename", "absolute_path", "file")
_EXIT = re.compile(r"(?:Error: )?Exit code:? (\d{1,6})\s*")
#: Agents that report every exit code but 0 as a failure.
_TELL_FAILURES = frozenset(("claude-code",))
_REJECTED = re.compile(
    r"doesn't want to proceed with this tool use|^\[Request interrupted by user|user rejected|^Permission to use "
)


@dataclass(frozen=True, slots=True)
class Act:
    """One event, read: what was done, to what, and what came of it."""

    id: int
    at: int  #: its place in the round
    verb: str
    tool: str
    input: Mapping[str, Any]
    response: Any
    output: str
    failed: bool
    exit_code: int | None  #: of the whole command line; None if the agent did not tell it
    path: str
    cwd: str
    home: str  #: the directory from which files are named

    @property
    def command(self) -> str:
        """The shell command, for an act that ran one."""
        value = first(self.input, "command", "cmd", "script", "input")
        if isinstance(value, list):
            words = [str(word) for word in value]
            return words[-1] if len(words) > 2 and words[1].startswith("-") and "c" in words[1] else " ".join(words)
        return value[:20_000] if isinstance(value, str) else ""

    def text(self, *keys: str) -> str:
        """The first of these inputs that is text."""
        value = first(self.input, *keys)
        return value if isinstance(value, str) else ""

    def relative(self, path: str) -> str:
        """A path as it is told: from the root of the repository where it lies inside."""
        return relative(path, self.home, self.cwd)


def first(values: Mapping[str, Any], *keys: str) -> Any:
    """The first of these keys that holds something."""
    return next((values[key] for key in keys if values.get(key) not in (None, "", [])), None)


def read_acts(round_: Round) -> list[Act]:
    """The acts of the whole round, oldest first; interrupted and refused ones did not happen."""
    acts = (_read(event, at, round_) for at, event in enumerate((*round_.earlier, *round_.events)))
    return [act for act in acts if act is not None]


def _read(event: Event, at: int, round_: Round) -> Act | None:
    if event.kind not in ("tool", "tool_failure"):
        return None
    payload = mapping(event.payload)
    given, response = payload.get("tool_input"), payload.get("tool_response")
    if isinstance(given, str):
        given = {"input": given}
    inputs = mapping(given)
    tool = event.tool_name if isinstance(event.tool_name, str) else ""
    verb = verb_of(tool, inputs)
    failed, output, code = _outcome(event, payload, response, verb)
    if round_.agent in _TELL_FAILURES and code is None and not failed and not mapping(response).get("backgroundTaskId"):
        code = 0
    if verb == "skip" or (failed and _REJECTED.search(output[:400])):
        return None
    home, here = (each if isinstance(each, str) else "" for each in (round_.home, round_.cwd))
    cwd = payload.get("cwd")
    cwd = cwd if isinstance(cwd, str) and cwd else here
    where = first(inputs, *_PATH_KEYS)
    path = relative(where, home, cwd) if isinstance(where, str) else ""
    return Act(event.id, at, verb, tool, inputs, response, output, failed, code, path, cwd, home)


def verb_of(tool: str, inputs: Mapping[str, Any]) -> str:
    """What a tool does: by its name, else by what it was given."""
    name = tool.lower()
    if known := _VERB_OF.get(name):
        # The editors with sub-commands read and create, too.
        if known == "edit" and inputs.get("command") in ("view", "create"):
            return "read" if inputs["command"] == "view" else "write"
        return known
    return "ask" if name.startswith("mcp__") else _verb_by_input(inputs)


def _verb_by_input(inputs: Mapping[str, Any]) -> str:
    if isinstance(first(inputs, "old_string", "oldString", "old_str", "edits"), str | list):
        return "edit"
    if isinstance(first(inputs, "command", "cmd"), str | list):
        return "run"
    if isinstance(first(inputs, *_PATH_KEYS), str):
        return "write" if isinstance(first(inputs, "content", "contents", "file_text"), str) else "read"
    return "ask"


def _outcome(event: Event, payload: Mapping[str, Any], response: Any, verb: str) -> tuple[bool, str, int | None]:
    """Return whether it failed, its output, and the exit code of a command."""
    failed = event.kind == "tool_failure"
    raw = text_of(payload.get("error") if failed else response)
    if failed and not raw:
        raw = text_of(response)
    raw = raw.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    code = None
    if told := _EXIT.match(raw):
        code = int(told.group(1))
        failed = failed or code != 0
        raw = raw[told.end() :]
    if isinstance(response, Mapping) and not failed:
        status = first(response, "exit_code", "exitCode", "returncode", "code") if verb == "run" else None
        failed = (
            (isinstance(status, int) and status != 0)
            or response.get("is_error") is True
            or response.get("isError") is True
            or (response.get("success") is False)
            or response.get("interrupted") is True
        )
        code = status if isinstance(status, int) else code
    elif isinstance(response, str) and verb != "run" and raw.startswith(("Error: ", "Error calling tool")):
        failed = True
    return failed, clean_output(raw), code


def text_of(value: Any, depth: int = 0) -> str:
    """The text in a response: a string, blocks of content, or the fields that tools answer with."""
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, (text_of(item, depth + 1) for item in value[:200])))
    if isinstance(value, Mapping):
        if isinstance(value.get("stdout"), str) or isinstance(value.get("stderr"), str):
            return "\n".join(part for key in ("stdout", "stderr") if isinstance(part := value.get(key), str) and part)
        keys = ("text", "content", "result", "output", "file", "error", "message", "results", "filenames")
        return next((text for key in keys if (text := text_of(value.get(key), depth + 1))), "")
    return ""


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def relative(path: str, home: str, cwd: str = "") -> str:
    """The path from home where it lies inside, else as it is; drive letters and backslashes too."""
    path = path[:1000].replace("\\", "/") if "\\" in path else path[:1000]
    if path.startswith("file://"):
        path = path[7:]
    home, cwd = home.replace("\\", "/").rstrip("/"), cwd.replace("\\", "/").rstrip("/")
    if not path or path.startswith("~") or "://" in path:
        return path
    absolute = path.startswith("/") or (len(path) > 2 and path[1] == ":")
    full = posixpath.normpath(path if absolute else f"{cwd or home}/{path}" if cwd or home else path)
    for root in (home, cwd):
        if root and full.startswith(f"{root}/"):
            return full[len(root) + 1 :]
    return full if absolute or not (home or cwd) else path
