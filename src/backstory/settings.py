"""Settings: the defaults, then config.toml in the data directory, then BACKSTORY_*, which only this file reads."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from backstory.errors import BadSetting
from backstory.paths import Paths, locked, write_private

#: provider -> the variables in which its vendor's own programs look for an API key and a base URL
VENDORS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
#: (setting, value) -> the package that it needs, and the extra that installs it; * is any value but an empty one
PACKAGES = {
    ("database_url", "*"): ("psycopg", "backstory[postgres]"),
    ("provider", "claude"): ("claude_agent_sdk", "backstory[claude]"),
    ("provider", "anthropic"): ("anthropic", "backstory[anthropic]"),
    ("provider", "openai"): ("openai", "backstory[openai]"),
    ("embedder", "fastembed"): ("fastembed", "fastembed"),
}
#: Tools that are never recorded.
SKIPPED_TOOLS = ("ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite")


def _setting(
    default: Any,
    sentence: str,
    choices: tuple[str, ...] = (),
    *,
    at_once: bool = False,
    secret: bool = False,
    address: bool = False,
    least: int = 0,
    most: float = math.inf,
) -> Any:
    """A setting. A `secret` is masked, of an `address` only its password. `least` and `most` are limits of a number."""
    marks = {"at_once": at_once, "secret": secret, "address": address, "least": least, "most": most}
    return field(default=default, metadata={"sentence": sentence, "choices": choices, **marks})


#: A setting that a running worker applies without a restart.
_live = partial(_setting, at_once=True)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Values that no user sets. Tests change them, with BACKSTORY_TESTING="settle_seconds=0.2 observers=1"."""

    settle_seconds: float = 10.0  #: a round without an end is observed after this pause: the agent may be thinking
    prompt_seconds: float = 0.025  #: for the context of a prompt, at most: the agent waits; else there is none
    retry_seconds: float = 1.0  #: the first pause after a failure; it doubles with each try
    observers: int = 4  #: sessions observed at the same time; each may run a `claude`
    requests_per_second: int = 10_000  #: over TCP, more than any program needs: stops one that runs wild
    spare_mb: int = 200  #: free disk space that backups leave alone; `backstory doctor` warns below it
    past_days: float = 7.0  #: a model is not asked about older rounds, such as imports; 0: no limit
    log_level: str = "info"  #: the least severe level that is written to worker.log


#: How long a round is leased to an observer. Rules need far less; another worker takes a dead one's rounds after it.
LEASE_SECONDS = 60.0
#: With a model a round must be quiet this many times longer (a quarter of an hour): each question is paid for.
MODEL_SETTLES = 90
#: With a model a round is leased for this many calls: it is asked again where an answer was cut off.
MODEL_CALLS = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, with its type, its default and its description."""

    data_dir: Path = _setting(Path("~/.backstory"), "Directory of all data. Only BACKSTORY_DATA_DIR sets it.")
    database_url: str = _setting(
        "",
        "Address of a PostgreSQL database: postgresql://user:password@host/database. Empty: use SQLite.",
        address=True,
    )
    host: str = _setting("127.0.0.1", "Address on which the worker listens.")
    port: int = _setting(37777, "Port on which the worker listens. 0: any free port.", most=65535)
    auth: str = _setting(
        "on", "Require the token over TCP. Turn it off only if you trust every user of this machine.", ("on", "off")
    )
    provider: str = _live(
        "offline",
        "What turns events into observations. offline: rules, without network or cost. Others: a model.",
        ("offline", "claude", "anthropic", "openai"),
    )
    model: str = _live("", "Model of the provider. Empty: a small one.")
    base_url: str = _live(
        "", "URL of an endpoint that is compatible with the provider's. Empty: the vendor's own.", address=True
    )
    api_key: str = _live(
        "", "API key of the provider. Empty: the vendor's variable (ANTHROPIC_API_KEY or OPENAI_API_KEY).", secret=True
    )
    mode: str = _live("code", "Types of observations and wording of the prompts to a model, from modes/NAME.toml.")
    language: str = _live("", "Language in which a model writes observations. Empty: the model chooses.")
    daily_tokens: int = _live(0, "Tokens that models may read and write per day. 0: no limit.")
    daily_money: float = _live(0.0, "US dollars that models may cost per day, at list prices. 0: no limit.")
    call_seconds: float = _live(60.0, "Timeout of a request to a model, in seconds.", least=1)
    claude_path: str = _live(
        "", "Path of the `claude` that the provider claude runs. Empty: the one on PATH, else the one of the SDK."
    )
    embedder: str = _setting(
        "static",
        "What makes vectors for search. static: built in. openai: an endpoint. fastembed: a downloaded model. "
        "off: search by words only.",
        ("static", "openai", "fastembed", "off"),
    )
    embed_model: str = _setting("", "Model of the embedder openai or fastembed. Empty: a small one.")
    embed_url: str = _setting(
        "",
        "URL of the embedder openai, such as http://127.0.0.1:11434/v1. Empty: OpenAI's. Its key is OPENAI_API_KEY.",
        address=True,
    )
    skip_tools: tuple[str, ...] = _live(
        (), "Tools that are not recorded, separated by commas, in addition to " + ", ".join(SKIPPED_TOOLS) + "."
    )
    exclude_projects: tuple[str, ...] = _live(
        (),
        "Projects that are not recorded, separated by commas: names, or directories with everything below them. "
        "* and ? are wildcards. Symbolic links are resolved.",
    )
    keep_transcripts: str = _live(
        "chosen",
        "Transcripts that are kept in the database, so that they can be resumed after the agent has deleted them. "
        "chosen: those of `backstory sessions keep`. all: every one.",
        ("chosen", "all"),
    )
    context_tokens: int = _live(4000, "Maximum number of tokens in the context of a new session.", least=1)
    prompt_tokens: int = _live(
        300, "Maximum number of tokens added to a prompt from related observations. 0: add nothing."
    )
    backup_hours: float = _live(24.0, "Hours between backups of the database. 0: no backups.")
    output_days: int = _live(0, "Days for which the output of tools is kept after it was observed. 0: forever.")
    pause_minutes: float = _live(5.0, "Minutes without an event after which a session is paused. 0: never.")
    expire_minutes: float = _live(
        30.0, "Minutes without an event after which a session of the Python API expires. 0: never."
    )
    sweep_minutes: float = _live(5.0, "Minutes between two looks for idle sessions. 0: never look.")
    assistant_name: str = _setting("Claude", "Name of the assistant in the archives of groups.")
    group_sandbox: str = _setting(
        "bubblewrap",
        "Sandbox of the agents of groups. none: they run as you and can read your files; only their permission rules "
        "keep groups apart.",
        ("bubblewrap", "docker", "podman", "none"),
    )
    group_image: str = _setting("python:3.13", "Image of the sandbox docker or podman. It needs python3 and bash.")
    group_model: str = _setting("", "Model of the agents of groups. Empty: the agent chooses.")
    group_limit: int = _setting(5, "Maximum number of groups whose agents run at the same time. Others wait.", least=1)
    group_idle_minutes: float = _setting(30.0, "Minutes without a message after which the agent of a group is ended.")
    group_run_minutes: float = _setting(120.0, "Minutes after which the agent of a group is ended in any case.")
    main_project: str = _setting("", "Directory that the agent of the main group may read and write. Empty: none.")
    tuning: Tuning = Tuning()

    @property
    def paths(self) -> Paths:
        return _paths(self.data_dir)

    @property
    def quiet_seconds(self) -> float:
        """How long a round must be quiet before it is observed without its end."""
        return self.tuning.settle_seconds * (1 if self.provider == "offline" else MODEL_SETTLES)

    @property
    def round_seconds(self) -> float:
        """How long a round is leased."""
        return LEASE_SECONDS if self.provider == "offline" else max(LEASE_SECONDS, self.call_seconds * MODEL_CALLS)

    def skips(self, tool: str | None) -> bool:
        """Whether a tool is not recorded. Our own tools are not: their answers would store forgotten text again."""
        own = tool is not None and tool.startswith("mcp__") and "backstory__" in tool
        return own or tool in SKIPPED_TOOLS or tool in self.skip_tools


NAMES = tuple(f.name for f in fields(Settings) if f.name not in {"data_dir", "tuning"})
_FIELDS = {f.name: f for f in fields(Settings)}


_paths = lru_cache(8)(Paths)


def sentence(name: str) -> str:
    """The description of a setting."""
    return str(_FIELDS[name].metadata["sentence"])


def is_at_once(name: str) -> bool:
    """Whether a running worker applies the setting without a restart."""
    return bool(_FIELDS[name].metadata["at_once"])


def shown(name: str, value: Any) -> Any:
    """A setting's value for display: API keys, and passwords in addresses, are masked."""
    marks = _FIELDS[name].metadata
    if marks.get("secret"):
        return "***" if value else ""
    return without_password(str(value)) if marks.get("address") else value


def without_password(address: str) -> str:
    """An address with its password masked. An address that cannot be parsed is masked completely."""
    if not address:
        return ""
    match = re.fullmatch(r"(\w+://)(?:([^:@/?#]*)(:[^@]*)?@)?([^@?#]*)(\?[^@#]*)?", address)
    if match is None:
        return "***"
    scheme, user, secret, rest, query = match.groups(default="")
    query = re.sub(r"(?i)\b(\w*password)=[^&]*", r"\1=***", query)
    return f"{scheme}{user}{':***' if secret else ''}{'@' if user or secret else ''}{rest}{query}"


def data_dir(env: Mapping[str, str]) -> Path:
    """The data directory, as an absolute path."""
    data = Path(env.get("BACKSTORY_DATA_DIR") or "~/.backstory").expanduser()
    return Path(os.path.abspath(data))  # noqa: PTH100 - a link to the data directory stays a link


def load(env: Mapping[str, str] | None = None) -> Settings:
    """The settings that apply now."""
    env = os.environ if env is None else env
    settings = Settings(data_dir=data_dir(env), tuning=_tuning(env.get("BACKSTORY_TESTING", "")))
    values = {name: convert(name, value) for name, value in read_config(settings.paths.config).items()}
    for name in NAMES:
        if value := env.get(f"BACKSTORY_{name.upper()}"):
            values[name] = convert(name, value, f"BACKSTORY_{name.upper()}")
    return _with_vendor_variables(replace(settings, **values), env)


class ConfigWatch:
    """Notices changes of config.toml while the worker runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._mtime_ns = path, _mtime_ns(path)

    def changed(self) -> Settings | None:
        """The new settings if config.toml was changed since the last call. None if not, or if it cannot be used."""
        if (mtime_ns := _mtime_ns(self._path)) == self._mtime_ns:
            return None
        self._mtime_ns = mtime_ns
        try:
            return load()
        except BadSetting as error:
            import logging  # not needed by commands

            logging.getLogger(__name__).warning("config.toml was changed and cannot be used: %s", error)
            return None


def _mtime_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _tuning(text: str) -> Tuning:
    """The tuning that a test asks for."""
    default = Tuning()
    pairs = (pair.partition("=") for pair in text.split())
    return replace(default, **{name: type(getattr(default, name))(value) for name, _, value in pairs})


def _with_vendor_variables(chosen: Settings, env: Mapping[str, str]) -> Settings:
    """Without an `api_key` of ours, take key and URL from the vendor's variables. The two belong together."""
    if not (names := VENDORS.get(chosen.provider)) or chosen.api_key:
        return chosen
    key, address = (env.get(name, "") for name in names)
    return replace(chosen, api_key=key, base_url=chosen.base_url or address)


def bare() -> Settings:
    """Only the data directory, without config.toml: `stop` and `uninstall` must work even if that cannot be read."""
    return Settings(data_dir=data_dir(os.environ))


def unknown(path: Path) -> list[str]:
    """Names in config.toml that are not settings: misspelled, or from a newer version."""
    try:
        return sorted(set(tomllib.loads(path.read_text("utf-8"))) - set(NAMES))
    except (OSError, ValueError):
        return []


def sources(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """setting -> `config.toml` or the variable that sets it, for each setting that is not at its default."""
    env = os.environ if env is None else env
    config = load({k: v for k, v in env.items() if k in ("BACKSTORY_DATA_DIR", "HOME")}).paths.config
    variables = {n: f"BACKSTORY_{n.upper()}" for n in NAMES if env.get(f"BACKSTORY_{n.upper()}")}
    return dict.fromkeys(read_config(config), "config.toml") | variables


def read_config(path: Path) -> dict[str, Any]:
    """The settings in config.toml."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is not valid TOML: {error}.", "Fix that line.") from None
    # Unknown names are ignored, so that an older version starts with the settings of a newer one.
    return {name: value for name, value in values.items() if name in NAMES}


def check_name(name: str) -> None:
    """Raise an error if there is no setting with this name."""
    if name not in NAMES:
        raise BadSetting(f"There is no setting `{name}`.", near(name, NAMES))


def near(word: str, known: Iterable[str]) -> str | None:
    """A hint that suggests the most similar word, or None if no word is similar."""
    import difflib

    matches = difflib.get_close_matches(word.lower(), known, n=1)
    return f"Did you mean `{matches[0]}`?" if matches else None


def convert(name: str, value: Any, called: str = "") -> Any:
    """Convert a value to the type of the setting and check it. `called` is the name that an error message uses."""
    called = called or name
    check_name(name)
    default = _FIELDS[name].default
    try:
        result = _as_type(default, value)
    except (TypeError, ValueError):
        raise BadSetting(f"`{called}` must be {_kind(default)}, not {shown(name, value)!r}.") from None
    choices, least, most = (_FIELDS[name].metadata[mark] for mark in ("choices", "least", "most"))
    if choices and result not in choices:
        raise BadSetting(f"`{called}` must be one of {', '.join(choices)}, not {value!r}.", near(str(value), choices))
    if isinstance(result, float) and not math.isfinite(result):
        raise BadSetting(f"`{called}` must be {_kind(default)}, not {shown(name, value)!r}.")
    if isinstance(result, int | float) and not least <= result <= most:
        limits = f"at least {least}" if most == math.inf else f"between {least} and {most}"
        raise BadSetting(f"`{called}` must be {limits}.")
    return result


def _as_type(default: Any, value: Any) -> Any:
    if isinstance(default, tuple):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, bool | list | dict):
        raise TypeError
    return type(default)(value)


def _kind(default: Any) -> str:
    return {tuple: "names separated by commas", int: "a whole number", float: "a number"}.get(type(default), "text")


def change(path: Path, name: str, value: Any | None) -> None:
    """Write one setting to config.toml, or remove it if the value is None. Other lines are not changed."""
    check_name(name)
    line = None if value is None else f"{name} = {_toml(convert(name, value))}"
    with locked(path.parent):  # another command may change another setting
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        assignment = re.compile(rf"\s*{re.escape(name)}\s*=")
        others = [text for text in lines if not assignment.match(text)]
        if line is not None:
            # A top-level key must come before the first table header.
            index = next((i for i, text in enumerate(others) if text.lstrip().startswith("[")), len(others))
            others.insert(index, line)
        body = "\n".join(others) + "\n" if others else ""
        try:
            tomllib.loads(body)
        except tomllib.TOMLDecodeError:
            raise BadSetting(f"`{name}` in {path} takes more than one line.", "Change it in that file.") from None
        write_private(path, body.encode())


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
    return str(value)


def spare_cores() -> None:
    """Limit numpy, which is loaded later, to one core. It would use all cores, and hooks would wait for one."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def environment() -> Mapping[str, str]:
    """The environment, for code that looks up an agent's own variables."""
    return os.environ
