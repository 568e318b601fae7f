"""config: lists settings and where each comes from; gets, sets and unsets one."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from backstory import settings
from backstory.cli import show


def add(commands: Any) -> None:
    top = commands.add_parser("config", help="show and change settings", description="Show and change settings.")
    actions = top.add_subparsers(metavar="ACTION")
    text = "list every setting, its value and what it does (the default)"
    for listing in (top, actions.add_parser("list", help=text)):
        listing.add_argument("--json", action="store_true", help="print JSON")
        listing.set_defaults(run=list_settings)
    for name, run, text in (
        ("get", get, "print the value of a setting"),
        ("set", change, "change a setting"),
        ("unset", unset, "reset a setting to its default"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME")
        if name == "set":
            action.add_argument("value", metavar="VALUE")
        action.set_defaults(run=run)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _when_applied(name: str) -> str:
    return "It applies now." if settings.is_at_once(name) else "Run `backstory restart` to apply it."


def list_settings(options: argparse.Namespace) -> int:
    sources = settings.sources()
    values = {name: settings.shown(name, value) for name, value in dataclasses.asdict(settings.load()).items()}
    if options.json:
        show.as_json({n: {"value": values[n], "from": sources.get(n, "default")} for n in settings.NAMES})
        return 0
    for name in settings.NAMES:
        source = f" (from {sources[name]})" if name in sources else ""
        print(f"{name} = {_text(values[name])}{source}")
        show.paragraph(settings.sentence(name), "    ")
    for name in settings.unknown(settings.load().paths.config):
        print(f"`{name}` in config.toml is not a setting and is ignored.")
    return 0


def get(options: argparse.Namespace) -> int:
    if options.name != "data_dir":
        settings.check_name(options.name)
    print(_text(settings.shown(options.name, getattr(settings.load(), options.name))))
    return 0


def change(options: argparse.Namespace) -> int:
    chosen = settings.load()
    chosen.paths.prepare()
    if options.name == "mode":
        from backstory.observe import modes

        modes.load(options.value, chosen.paths.modes)
    settings.change(chosen.paths.config, options.name, options.value)
    value = _text(settings.shown(options.name, settings.convert(options.name, options.value)))
    print(f"{options.name} = {value}")
    print(_when_applied(options.name))
    return 0


def unset(options: argparse.Namespace) -> int:
    config = settings.load().paths.config
    if options.name in settings.NAMES and options.name not in settings.read_config(config):
        print(f"{options.name} is not set in config.toml.")
        return 0
    settings.change(config, options.name, None)
    print(f"{options.name} has its default value again.")
    print(_when_applied(options.name))
    return 0
