"""How our hooks look in the text of somebody's settings: as if they had written them."""

from __future__ import annotations

import pytest

from backstory.agents.json_text import Hook, with_hooks, without_hooks

HOOKS = {"Stop": Hook("hook é", 5), "PreCompact": Hook("hook", 1, "*")}


def ours(command: str) -> bool:
    return command.startswith("hook")


INDENTED = """{
\t"n": 1.0,
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": []},
\t\t\t{
\t\t\t\t"hooks": [
\t\t\t\t\t{
\t\t\t\t\t\t"type": "command",
\t\t\t\t\t\t"command": "hook é",
\t\t\t\t\t\t"timeout": 5
\t\t\t\t\t}
\t\t\t\t]
\t\t\t}
\t\t],
\t\t"PreCompact": [
\t\t\t{
\t\t\t\t"matcher": "*",
\t\t\t\t"hooks": [
\t\t\t\t\t{
\t\t\t\t\t\t"type": "command",
\t\t\t\t\t\t"command": "hook",
\t\t\t\t\t\t"timeout": 1
\t\t\t\t\t}
\t\t\t\t]
\t\t\t}
\t\t]
\t}
}"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("unit", ["\t", "  ", "    ", ""])
def test_our_lines_follow_the_indentation_and_the_line_ends(newline: str, unit: str) -> None:
    """And the lines of others stay as they are, down to the look of a number."""
    theirs = '{\n\t"n": 1.0,\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": []}\n\t\t]\n\t}\n}'
    theirs, expected = (text.replace("\n", newline).replace("\t", unit) for text in (theirs, INDENTED))
    assert with_hooks(theirs, HOOKS, ours, frozenset()) == expected
    assert without_hooks(expected, ours, frozenset()) == theirs


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ('{"a":1}', '{"a":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"hook é","timeout":5}]}]}}'),
        (
            '{"a": 1}',
            '{"a": 1, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "hook é", "timeout": 5}]}]}}',
        ),
        (
            r'{"a":"\u00fc"}',
            r'{"a":"\u00fc","hooks":{"Stop":[{"hooks":[{"type":"command","command":"hook \u00e9","timeout":5}]}]}}',
        ),
        (
            '{ "hooks": { "Stop": [ 1, 2 ] } }',
            '{ "hooks": { "Stop": [ 1, 2, {"hooks": [{"type": "command", "command": "hook é", "timeout": 5}]} ] } }',
        ),
    ],
)
def test_a_file_in_one_line_stays_in_one_line(theirs: str, expected: str) -> None:
    """Spaces after marks and escaped letters are as the file has them."""
    assert with_hooks(theirs, {"Stop": HOOKS["Stop"]}, ours, frozenset()) == expected
    assert without_hooks(expected, ours, frozenset()) == theirs


def test_a_container_of_theirs_is_empty_again_without_a_trace() -> None:
    """No blank lines are left where our lines were."""
    theirs = '{\n  "hooks": {\n    "Stop": []\n  }\n}'
    installed = with_hooks(theirs, HOOKS, ours, frozenset({None, "Stop"}))
    assert without_hooks(installed, ours, frozenset({None, "Stop"})) == theirs
    assert without_hooks(installed, ours, frozenset({None})) == '{\n  "hooks": {}\n}'
    assert without_hooks(installed, ours, frozenset()) == "{}"
