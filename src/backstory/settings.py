"""What people can set: defaults, then config.toml in the data directory, then BACKSTORY_* (read only here)."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from backstory.errors import BadSetting
from backstory.paths import Paths, write_private

#: provider -> the variables in which its vendor's programs look for a key and an address
VENDORS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
SKIPPED_TOOLS = ("ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion")


def _say(default: Any, sentence: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"sentence": sentence, "choices": choices})


@dataclass(frozen=True, slots=True)
class Tuning:
    """Numbers that no user sets. Tests change them, with BACKSTORY_TESTING="settle_seconds=0.2 observers=1"."""

    settle_seconds: float = 10.0  #: a round without an end is observed after this pause: the agent may be thinking
    retry_seconds: float = 1.0  #: the first pause after a failure; it doubles with each try
    observers: int = 4  #: sessions observed at the same time; each may run a `claude`
    requests_per_second: int = 10_000  #: over TCP, more than any program needs: stops one that runs wild
    spare_mb: int = 200  #: free disk space that backups leave alone; `backstory doctor` warns below it


#: How long a round is leased to an observer. Rules need far less; another worker takes a dead one's rounds after it.
LEASE_SECONDS = 60.0
#: With a model a round must be quiet this many times longer (a quarter of an hour): each question is paid for.
MODEL_SETTLES = 90
#: With a model a round is leased for this many calls: it is asked again where an answer was cut off.
MODEL_CALLS = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, typed, with a sentence each."""

    data_dir: Path = _say(Path("~/.backstory"), "Where everything is kept; only by BACKSTORY_DATA_DIR.")
    database_url: str = _say(
        "", "A PostgreSQL to keep everything in, as postgresql://user:password@host/database; empty means SQLite."
    )
    host: str = _say("127.0.0.1", "The address that the worker listens on.")
    port: int = _say(37777, "The port that the worker listens on; 0 takes any free one.")
    auth: str = _say(
        "on", "Ask for the token over TCP; off only where every user of the machine is trusted.", ("on", "off")
    )
    provider: str = _say(
        "offline",
        "Who turns events into memory; offline needs no network and costs nothing, the others ask a model.",
        ("offline", "claude", "anthropic", "openai"),
    )
    model: str = _say("", "Which of the provider's models; empty for a small one of its own choice.")
    base_url: str = _say(
        "", "Where the provider's endpoint is, for any that is compatible; empty for the vendor's own."
    )
    api_key: str = _say(
        "", "The provider's key; empty takes the vendor's variable (ANTHROPIC_API_KEY, OPENAI_API_KEY)."
    )
    mode: str = _say("code", "What observations are made of and in which words a model is asked: modes/NAME.toml.")
    language: str = _say("", "The language that a model writes memory in; empty leaves it to the model.")
    daily_tokens: int = _say(0, "How many tokens models may take a day, read and written; 0 for no limit.")
    daily_money: float = _say(0.0, "How many dollars models may take a day, by list prices; 0 for no limit.")
    past_days: float = _say(
        7.0,
        "How many days back a model is asked about what happened; what is older, such as an import, is told by the "
        "rules until `backstory reobserve` is run; 0 for no limit.",
    )
    call_seconds: float = _say(60.0, "How long a model may take for an answer before it is cut off.")
    claude_path: str = _say(
        "", "The `claude` that the provider claude asks; empty means the one on PATH, else the one inside the SDK."
    )
    embedder: str = _say(
        "static",
        "What search by meaning goes by: static needs nothing, openai asks an endpoint, fastembed downloads a model.",
        ("static", "openai", "fastembed", "off"),
    )
    embed_model: str = _say("", "The model of the embedder openai or fastembed; empty means a small one.")
    embed_url: str = _say(
        "",
        "The address of the embedder openai, as http://127.0.0.1:11434/v1; empty means OpenAI's. "
        "OPENAI_API_KEY is its key.",
    )
    skip_tools: tuple[str, ...] = _say(
        (), "Tools never to remember, with commas between them, beside " + ", ".join(SKIPPED_TOOLS) + "."
    )
    exclude_projects: tuple[str, ...] = _say(
        (),
        "Projects never to remember: names, or directories with all that is in them, with * and ?, with commas between "
        "them. Links are resolved.",
    )
    context_tokens: int = _say(2000, "How many tokens a new session is told at the most.")
    prompt_tokens: int = _say(
        300, "How many tokens a prompt brings along of what is clearly about the same thing, at the most; 0 for none."
    )
    backup_hours: float = _say(24.0, "How old the newest backup of the database may get; 0 for no backups.")
    output_days: int = _say(0, "For how many days what tools answered is kept once it is observed; 0 for always.")
    log_level: str = _say("info", "How much worker.log tells.", ("debug", "info", "warning", "error"))
    tuning: Tuning = Tuning()

    @property
    def paths(self) -> Paths:
        return Paths(self.data_dir)

    @property
    def quiet_seconds(self) -> float:
        """How long a round must be quiet before it is observed without its end."""
        return self.tuning.settle_seconds * (1 if self.provider == "offline" else MODEL_SETTLES)

    @property
    def round_seconds(self) -> float:
        """How long a round is leased."""
        return LEASE_SECONDS if self.provider == "offline" else max(LEASE_SECONDS, self.call_seconds * MODEL_CALLS)

    def skips(self, tool: str | None) -> bool:
        """Whether a tool is never remembered. Our own are not: memory that eats itself would keep what is forgotten."""
        own = tool is not None and tool.startswith("mcp__") and "backstory__" in tool
        return own or tool in SKIPPED_TOOLS or tool in self.skip_tools


NAMES = tuple(f.name for f in fields(Settings) if f.name not in {"data_dir", "tuning"})
#: Numbers that may be 0; the others begin at 1.
_FROM_ZERO = frozenset(
    {
        "port",
        "backup_hours",
        "prompt_tokens",
        "output_days",
        "daily_tokens",
        "daily_money",
        "past_days",
    }
)
_FIELDS = {f.name: f for f in fields(Settings)}


def sentence(name: str) -> str:
    """What a setting is for."""
    return str(_FIELDS[name].metadata["sentence"])


def shown(name: str, value: Any) -> Any:
    """A setting's value as it may be shown: a key is not, nor a password in an address."""
    if name == "api_key":
        return "***" if value else ""
    return without_password(str(value)) if name in ("database_url", "base_url", "embed_url") else value


def without_password(address: str) -> str:
    """An address with its password masked, however it is written; one that can't be understood is masked whole."""
    if not address:
        return ""
    plain = re.fullmatch(r"(\w+://)(?:([^:@/?#]*)(:[^@]*)?@)?([^@?#]*)(\?[^@#]*)?", address)
    if plain is None:
        return "***"
    scheme, user, secret, rest, query = plain.groups(default="")
    query = re.sub(r"(?i)\b(\w*password)=[^&]*", r"\1=***", query)
    return f"{scheme}{user}{':***' if secret else ''}{'@' if user or secret else ''}{rest}{query}"


def data_dir(env: Mapping[str, str]) -> Path:
    """Where everything is kept."""
    data = Path(env.get("BACKSTORY_DATA_DIR") or "~/.backstory").expanduser()
    return Path(os.path.abspath(data))  # noqa: PTH100 - a link to the data directory stays a link


def load(env: Mapping[str, str] | None = None) -> Settings:
    """The settings in force."""
    env = os.environ if env is None else env
    settings = Settings(data_dir=data_dir(env), tuning=_tuning(env.get("BACKSTORY_TESTING", "")))
    chosen: dict[str, Any] = read_config(settings.paths.config)
    ready = {name: convert(name, value) for name, value in chosen.items()}
    for name in NAMES:
        if value := env.get(f"BACKSTORY_{name.upper()}"):
            ready[name] = convert(name, value, f"BACKSTORY_{name.upper()}")
    return _with_vendors_own(replace(settings, **ready), env)


def _tuning(text: str) -> Tuning:
    """The tuning that a test asks for."""
    default = Tuning()
    pairs = (pair.partition("=") for pair in text.split())
    return replace(default, **{name: type(getattr(default, name))(value) for name, _, value in pairs})


def _with_vendors_own(chosen: Settings, env: Mapping[str, str]) -> Settings:
    """What a provider's own variables say, where our settings say nothing: the two belong together."""
    if not (names := VENDORS.get(chosen.provider)) or chosen.api_key:
        return chosen
    key, address = (env.get(name, "") for name in names)
    return replace(chosen, api_key=key, base_url=chosen.base_url or address)


def bare() -> Settings:
    """Only where things are: for stopping and leaving, which must work whatever stands in config.toml."""
    return Settings(data_dir=data_dir(os.environ))


def unknown(path: Path) -> list[str]:
    """Names in config.toml that are no settings: misspelt, or of a newer version."""
    try:
        return sorted(set(tomllib.loads(path.read_text("utf-8"))) - set(NAMES))
    except (OSError, ValueError):
        return []


def sources(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where each setting that is not a default comes from."""
    env = os.environ if env is None else env
    config = load({k: v for k, v in env.items() if k in ("BACKSTORY_DATA_DIR", "HOME")}).paths.config
    found = dict.fromkeys(read_config(config), "config.toml")
    found |= {n: f"BACKSTORY_{n.upper()}" for n in NAMES if env.get(f"BACKSTORY_{n.upper()}")}
    return found


def read_config(path: Path) -> dict[str, Any]:
    """What the user changed."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is not valid TOML: {error}.", "Mend the line it names.") from None
    # A setting of a newer version is left alone: an older program must still start.
    return {name: value for name, value in values.items() if name in NAMES}


def check_name(name: str) -> None:
    """Refuse a name that is no setting's."""
    if name not in NAMES:
        raise BadSetting(f"There is no setting `{name}`.", near(name, NAMES))


def near(word: str, known: Iterable[str]) -> str | None:
    """A hint that names what may have been meant; None if nothing is like it."""
    import difflib

    found = difflib.get_close_matches(word.lower(), known, n=1)
    return f"Did you mean `{found[0]}`?" if found else None


def convert(name: str, value: Any, called: str = "") -> Any:
    """A value as the setting's own type, or a clear refusal that names it as it was given."""
    called = called or name
    check_name(name)
    default = _FIELDS[name].default
    try:
        result = _as_type(default, value)
    except (TypeError, ValueError):
        raise BadSetting(f"`{called}` takes {_kind(default)}, not {shown(name, value)!r}.") from None
    choices = _FIELDS[name].metadata["choices"]
    if choices and result not in choices:
        raise BadSetting(f"`{called}` is one of {', '.join(choices)}, not {value!r}.", near(str(value), choices))
    if name == "port" and not 0 <= result <= 65535:
        raise BadSetting(f"`{called}` lies between 0 and 65535.")
    least = 0 if name in _FROM_ZERO else 1
    if isinstance(result, float) and not math.isfinite(result):
        raise BadSetting(f"`{called}` takes {_kind(default)}, not {shown(name, value)!r}.")
    if isinstance(result, int | float) and result < least:
        raise BadSetting(f"`{called}` must be at least {least}.")
    return result


def _as_type(default: Any, value: Any) -> Any:
    if isinstance(default, tuple):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, bool | list | dict):
        raise TypeError
    return type(default)(value)


def _kind(default: Any) -> str:
    return {tuple: "names with commas between them", int: "a whole number", float: "a number"}.get(
        type(default), "a text"
    )


def change(path: Path, name: str, value: Any | None) -> None:
    """Write one setting to config.toml, or take it out; whatever else stands there stays."""
    check_name(name)
    line = None if value is None else f"{name} = {_toml(convert(name, value))}"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    mine = re.compile(rf"\s*{re.escape(name)}\s*=")
    kept = [text for text in lines if not mine.match(text)]
    if line is not None:
        # Before the first table header, where a top-level key belongs.
        at = next((i for i, text in enumerate(kept) if text.lstrip().startswith("[")), len(kept))
        kept.insert(at, line)
    body = "\n".join(kept) + "\n" if kept else ""
    tomllib.loads(body)
    write_private(path, body.encode())


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
    return str(value)


def spare_cores() -> None:
    """Arithmetic takes one core: numpy, loaded later, would take all of them, and hooks wait for one."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def environment() -> Mapping[str, str]:
    """The environment, for those who look up an agent's own variables in it."""
    return os.environ
