"""The examples at the end of each `--help`."""

from __future__ import annotations

from backstory.cli.parser import Parser

#: command -> lines of a shell
EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "backstory install                   # add backstory to Claude Code",
        "backstory search discount           # what is known about it in this project",
        "backstory context                   # what the next session is told",
        "backstory COMMAND --help            # options and examples of a command",
    ),
    "install": ("backstory install --dry-run", "backstory install --scope project"),
    "uninstall": ("backstory uninstall --dry-run", "backstory uninstall"),
    "start": ("backstory start",),
    "stop": ("backstory stop",),
    "restart": ("backstory restart",),
    "worker": ("BACKSTORY_PORT=0 backstory worker",),
    "status": ("backstory status", "backstory status --json"),
    "open": ("backstory open", "backstory open --print"),
    "doctor": ("backstory doctor", "backstory doctor --json"),
    "repair": ("backstory repair",),
    "search": (
        "backstory search discount twice",
        'backstory search "cart total" --since yesterday',
        "backstory search --file cart.py --type bugfix",
        "backstory search retry --all-projects --limit 5",
    ),
    "show": ("backstory show 12", "backstory show 12 S3", "backstory show 12 --sources"),
    "context": ("backstory context", "backstory context --why", "backstory context --project shop --branch main"),
    "timeline": ("backstory timeline", "backstory timeline 12", "backstory timeline --query discount --after 3"),
    "stats": ("backstory stats", "backstory stats --project shop", "backstory stats --days 30"),
    "remember": (
        'backstory remember "Prices are in cents, never floats."',
        "git log -1 --format=%B | backstory remember - --type change",
    ),
    "edit": ('backstory edit 12 --title "Prices are in cents"', "backstory edit 12 --type decision"),
    "merge": ("backstory merge 12 40", 'backstory merge 12 40 41 --title "Prices are in cents"'),
    "hide": ("backstory hide 12", "backstory hide S3", "backstory hide --undo 12", "backstory hide --list"),
    "pin": ("backstory pin 12", "backstory pin 12 --off"),
    "supersede": ("backstory supersede 12 40", "backstory supersede 12 --off"),
    "forget": ("backstory forget 12", "backstory forget --matching staging password", "backstory forget --session S3"),
    "groups": (
        "backstory groups create family",
        'backstory groups run family "Plan a trip to Japan for us."',
        "backstory groups history family",
    ),
    "groups run": ('backstory groups run main "Look at the tests."', "git diff | backstory groups run main -"),
    "groups chat": ("backstory groups chat main",),
    "sessions": (
        "backstory sessions",
        "backstory sessions show 3",
        "backstory sessions search checkout rounding",
        'backstory sessions rename 3 "Cart totals"',
    ),
    "sessions list": ("backstory sessions list --limit 5", "backstory sessions list --tag release"),
    "sessions show": ("backstory sessions show 3", "backstory sessions show 3 --turns"),
    "sessions search": ("backstory sessions search checkout rounding", "backstory sessions search cart --since 7d"),
    "sessions rename": ('backstory sessions rename 3 "Cart totals"', "backstory sessions rename 3 --off"),
    "sessions tag": ("backstory sessions tag 3 release", "backstory sessions tag 3 release --off"),
    "sessions export": ("backstory sessions export 3 --output cart.md", "backstory sessions export 3 --format json"),
    "sessions delete": ("backstory sessions delete 3", "backstory sessions delete 3 --yes"),
    "sessions keep": ("backstory sessions keep 3", "backstory sessions keep --all"),
    "resume": ("backstory resume", "backstory resume checkout rounding", 'eval "$(backstory resume 3 --print)"'),
    "groups list": ("backstory groups list", "backstory groups list --json"),
    "groups create": ("backstory groups create family",),
    "groups show": ("backstory groups show family", "backstory groups show family --archive 1"),
    "groups clear": ('backstory groups clear family --name "Travel Planning"',),
    "groups history": ("backstory groups history family",),
    "groups resume": ("backstory groups resume family 1", 'backstory groups resume family 1 --save-as "Taxes"'),
    "groups search": ("backstory groups search family night train",),
    "groups archive": ("backstory groups archive family",),
    "groups delete": ("backstory groups delete family", "backstory groups delete family --yes --output family.tar.gz"),
    "queue": ("backstory queue", "backstory queue retry --all"),
    "queue list": ("backstory queue list --dead",),
    "queue retry": ("backstory queue retry 17", "backstory queue retry --all"),
    "queue drop": ("backstory queue drop 17",),
    "reindex": ("backstory reindex", "backstory reindex --vectors"),
    "reobserve": ("backstory reobserve --dry-run", "backstory reobserve --project shop --since 7d"),
    "export": ("backstory export --output memory.jsonl.gz",),
    "import": ("backstory import claude-code ~/.claude/projects", "backstory import backstory memory.jsonl.gz"),
    "import claude-code": ("backstory import claude-code ~/.claude/projects",),
    "import conversations": ("backstory import conversations talks.jsonl",),
    "import backstory": ("backstory import backstory memory.jsonl.gz",),
    "import claude-mem": ("backstory import claude-mem ~/.claude-mem/claude-mem.db",),
    "config": (
        "backstory config",
        "backstory config set context_tokens 2000",
        "backstory config set exclude_projects 'notes,~/private'",
    ),
    "config list": ("backstory config list --json",),
    "config get": ("backstory config get port",),
    "config set": ("backstory config set context_tokens 2000", "backstory config set provider anthropic"),
    "config test": ("backstory config test",),
    "config unset": ("backstory config unset context_tokens",),
    "completion": (
        'eval "$(backstory completion bash)"       # in ~/.bashrc',
        'eval "$(backstory completion zsh)"        # in ~/.zshrc, after compinit',
        "backstory completion fish | source         # in ~/.config/fish/config.fish",
    ),
    "version": ("backstory version",),
    "hook": ("backstory hook claude-code Stop < payload.json",),
    "mcp": ("backstory mcp",),
}


def add(parser: Parser, path: str = "") -> None:
    """Add its examples to a parser and to those below it."""
    if lines := EXAMPLES.get(path):
        parser.epilog = "Examples:\n" + "\n".join(f"  {line}" for line in lines)
    for name, child in parser.children().items():
        add(child, f"{path} {name}".strip())
