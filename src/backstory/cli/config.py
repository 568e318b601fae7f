"""config: lists settings and where each comes from; gets, sets and unsets one; tests the provider."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from backstory import settings
from backstory.cli import show
from backstory.settings import Settings

#: Seconds that a test may take. `call_seconds` ends it earlier.
TEST_S = 600.0


def add(commands: Any) -> None:
    top = commands.add_parser("config", help="show and change settings", description="Show and change settings.")
    actions = top.add_subparsers(metavar="ACTION")
    text = "list every setting, its value and what it does (the default)"
    for listing in (top, actions.add_parser("list", help=text)):
        listing.add_argument("--changed", action="store_true", help="list only settings that are not at their default")
        listing.runs_with_json(list_settings)
    for name, run, text in (
        ("get", get, "print the value of a setting"),
        ("set", change, "change a setting"),
        ("unset", unset, "reset a setting to its default"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME", help="a setting, as `backstory config` lists it")
        if name == "set":
            action.add_argument("value", metavar="VALUE", help="its value; several are separated by commas")
        action.runs_with_json(run)

    text = "ask the provider one question, to see whether it answers"
    tested = actions.add_parser("test", help=text)
    tested.description = "Ask the provider that is set one question, which contains nothing of the memory."
    tested.runs_with_json(test)


def test(options: argparse.Namespace) -> int:
    from backstory.cli.worker import connect

    result = connect(timeout=TEST_S).post("/api/settings/test", {})
    if not show.printed_json(options, result):
        name = f"{result['provider']} ({result['model']})" if result["model"] else result["provider"]
        took = f" It took {result['seconds']:.1f} s." if result["seconds"] else ""
        show.paragraph(f"{name}: {result['says']}{took}", code="" if result["ok"] else show.YELLOW)
    return 0 if result["ok"] else 1


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def list_settings(options: argparse.Namespace) -> None:
    chosen, sources, default = settings.load(), settings.sources(), Settings()
    values = {name: settings.shown(name, value) for name, value in dataclasses.asdict(chosen).items()}
    names = [name for name in settings.NAMES if not options.changed or name in sources]
    if show.printed_json(options, {n: {"value": values[n], "from": sources.get(n, "default")} for n in names}):
        return
    for name in names:
        before = _text(getattr(default, name)) or "empty"
        source = f" (from {sources[name]}; default: {before})" if name in sources else ""
        show.line(show.Styled(f"{name} = {_text(values[name])}", show.BOLD if source else ""), source)
        show.paragraph(settings.sentence(name), "    ")
    for name in settings.unknown(chosen.paths.config):
        print(f"`{name}` in config.toml is not a setting and is ignored.")
    changed = show.count(len(sources), "setting is", "settings are") if sources else "No setting is"
    if not options.changed or not sources:
        print(f"{changed} changed. `backstory config set NAME VALUE` changes one.")


def get(options: argparse.Namespace) -> None:
    if options.name != "data_dir":
        settings.check_name(options.name)
    value = settings.shown(options.name, getattr(settings.load(), options.name))
    if not show.printed_json(options, {options.name: value}):
        print(_text(value))


def change(options: argparse.Namespace) -> None:
    chosen, name = settings.load(), options.name
    chosen.paths.prepare()
    if name == "mode":
        from backstory.observe import modes

        modes.load(options.value, chosen.paths.modes)
    settings.change(chosen.paths.config, name, options.value)
    value = settings.convert(name, options.value)
    shown, applies, missing = settings.shown(name, value), _apply(chosen, name), _missing(name, value)
    if show.printed_json(options, {"name": name, "value": shown, "applies": applies, "missing": missing}):
        return
    print(f"{name} = {_text(shown)}\n{applies}")
    for each in missing:
        show.paragraph(each, code=show.YELLOW)


def unset(options: argparse.Namespace) -> None:
    chosen, name = settings.load(), options.name
    if name in settings.NAMES and name not in settings.read_config(chosen.paths.config):
        if not show.printed_json(options, {"name": name, "value": settings.shown(name, getattr(chosen, name))}):
            print(f"{name} is not set in config.toml.")
        return
    settings.change(chosen.paths.config, name, None)
    value, applies = getattr(Settings(), name), _apply(chosen, name)
    if not show.printed_json(options, {"name": name, "value": settings.shown(name, value), "applies": applies}):
        print(f"{name} has its default value again: {_text(value) or 'empty'}\n{applies}")


def _apply(before: Settings, name: str) -> str:
    """Apply a setting that was changed, and say when it applies. The worker is restarted if it reads this one only at
    its start."""
    from backstory.cli import worker
    from backstory.worker import process

    if (source := settings.sources().get(name, "config.toml")) != "config.toml":
        return f"It has no effect: {source} is set, and comes first."
    if settings.is_at_once(name):
        return "It applies now."
    if process.running_pid(before.paths) is None:
        return "It applies when the worker starts."
    process.stop(before.paths)
    worker.start_worker(settings.load())
    return "The worker was restarted to apply it."


def _missing(name: str, value: Any) -> list[str]:
    """Say what is missing before the setting works."""
    from importlib.util import find_spec

    said, packages = [], settings.PACKAGES
    package, extra = packages.get((name, value)) or packages.get((name, "*" if value else ""), ("", ""))
    if package and find_spec(package) is None:
        said.append(f"The package `{package}` is missing. Install it: pip install '{extra}'")
    variable = settings.VENDORS.get(value, ("",))[0] if name == "provider" else ""
    chosen = settings.load()
    if variable and not chosen.api_key and not chosen.base_url:
        said.append(f"It needs a key: `backstory config set api_key KEY`, or {variable} in the worker's environment.")
    return said
