"""The documents say what is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from backstory import __version__

ROOT = Path(__file__).parent.parent


def pages() -> dict[str, str]:
    """What the program prints about itself, in a process of its own: argparse looks at the terminal."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import docs, json; "
    code += "print(json.dumps({n: w() for n, w in docs.PAGES.items()}))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    found: dict[str, str] = json.loads(out)
    return found


def test_the_pages_that_the_program_prints_are_current() -> None:
    """`make docs` would change nothing."""
    for name, text in pages().items():
        # Words only: how argparse breaks its lines differs from one Python to the next.
        assert (ROOT / "docs" / name).read_text("utf-8").split() == text.split(), f"docs/{name}: run `make docs`"


@pytest.mark.parametrize(("page", "lines"), [("README.md", 120), ("CONTRIBUTING.md", 60)])
def test_a_first_page_is_short_and_its_links_lead_somewhere(page: str, lines: int) -> None:
    """Every relative link is a file."""
    text = (ROOT / page).read_text("utf-8")
    assert text.count("\n") < lines
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / link).exists(), link


PAGES = ["README.md", "AGENTS.md", "CHANGELOG.md", "plugin/README.md", "plugin/skills/backstory/SKILL.md"]
PAGES += [f"docs/{name}.md" for name in ("how-it-works", "api", "privacy", "doctor", "postgresql", "models", "porting")]
PAGES += ["docs/sessions.md", "docs/groups.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_command_that_a_page_names_exists(page: str) -> None:
    """`backstory WORD` in a page is a command of the program."""
    from backstory.cli.main import parser

    known = parser().children()
    text = (ROOT / page).read_text("utf-8")
    for word in re.findall(r"(?:^    |`)backstory ([a-z]+)", text, re.MULTILINE):
        assert word in known, word


def test_the_changelog_begins_with_this_version() -> None:
    """Its sections are those of Keep a Changelog. AGENTS.md stays a map."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] == __version__
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)", text, re.MULTILINE)) <= kinds
    assert (ROOT / "AGENTS.md").read_text().count("\n") <= 130
