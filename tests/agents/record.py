"""Records what the real `claude` sends to hooks: the payloads under `recorded/claude-code` and the demo's session.

Run by hand when the client changes, from the root of the repository, then read the difference before you keep it:

    PYTHONPATH=tests .venv/bin/python tests/agents/record.py

It needs the bundled binary (the `dev` extra), git and pytest, and no network: the model is tests/endpoint.py. Paths of
the machine it ran on become /home/dev; nothing else is changed, neither names nor order nor values.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from claude import EVENTS, Claude, Listener
from endpoint import Endpoint, Fault, Kind, Reply, Script, Step, error, text, tool_use

Payload = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "agents" / "recorded" / "claude-code"
DEMO = ROOT / "demo" / "session.jsonl"

SHOP = {
    ".gitignore": "__pycache__/\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.4.0"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "shop/__init__.py": "",
    "shop/cart.py": '''"""The shopping cart."""

from decimal import Decimal

DISCOUNTS = {"SPRING10": Decimal("10.00"), "WELCOME5": Decimal("5.00")}


class Cart:
    def __init__(self) -> None:
        self.lines: list[tuple[str, Decimal, int]] = []
        self.discount = Decimal("0.00")

    def add(self, name: str, price: str, quantity: int = 1) -> None:
        self.lines.append((name, Decimal(price), quantity))

    def apply_discount(self, code: str) -> None:
        self.discount += DISCOUNTS[code]

    @property
    def total(self) -> Decimal:
        full = sum((price * quantity for _, price, quantity in self.lines), Decimal("0.00"))
        return max(full - self.discount, Decimal("0.00"))
''',
    "shop/money.py": '''"""Amounts as people read them."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"

    def format(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"
''',
    "shop/views.py": '''"""The pages."""

from shop.cart import Cart
from shop.money import Money

_totals: dict[int, str] = {}


def checkout_page(cart_id: int, cart: Cart) -> str:
    if cart_id not in _totals:
        _totals[cart_id] = Money(cart.total).format()
    return f"<h1>To pay: {_totals[cart_id]}</h1>"
''',
    "tests/test_cart.py": """from decimal import Decimal

from shop.cart import Cart


def filled() -> Cart:
    cart = Cart()
    cart.add("kettle", "40.00")
    cart.add("cup", "12.00", 5)
    return cart


def test_total():
    assert filled().total == Decimal("100.00")


def test_codes_combine():
    cart = filled()
    cart.apply_discount("SPRING10")
    cart.apply_discount("WELCOME5")
    assert cart.total == Decimal("85.00")


def test_discount_applies_once():
    cart = filled()
    cart.apply_discount("SPRING10")
    cart.apply_discount("SPRING10")
    assert cart.total == Decimal("90.00")
""",
}

PYTEST = {"command": "python -m pytest -q", "description": "Run the tests"}

BUG = "The cart total is wrong when a discount code is used twice. Find out why and fix it."

BUG_ANSWER = """The total is right now, whatever is typed twice.

**Cause:** `Cart.apply_discount` in `shop/cart.py` added the code's amount on every call, so entering SPRING10 twice \
took off 20.00 instead of 10.00.

**Decision:** the cart now keeps a set of the codes applied rather than a flag "discount used", because codes can be \
combined: SPRING10 and WELCOME5 together must still take off 15.00 (`test_codes_combine`).

All three tests pass and the fix is committed.

**Next step:** the checkout page still shows the old total until the cache expires, because `checkout_page` keeps what \
it once formatted in `_totals`. Clear that entry in `shop/views.py` when a discount is applied."""

YEN = "Prices in JPY should be shown without decimals. Add that to Money.format, with tests in a new file."

YEN_ANSWER = """`Money.format` now shows `1,200 JPY` and still `1,200.00 EUR`.

The number of decimals comes from a small table, `DECIMALS` in `shop/money.py`, with two as the default, so that the \
next currency without decimals (KRW, say) is one entry more. `tests/test_money.py` is new and covers both; all five \
tests pass and it is committed. `checkout_page` always uses the default EUR, so nothing changes there yet."""

YEN_TESTS = """from decimal import Decimal

from shop.money import Money


def test_two_decimals_by_default():
    assert Money(Decimal("1200")).format() == "1,200.00 EUR"


def test_yen_has_no_decimals():
    assert Money(Decimal("1200"), "JPY").format() == "1,200 JPY"
"""


def bash(command: str, description: str, **more: object) -> dict[str, Any]:
    return tool_use("Bash", {"command": command, "description": description, **more})


def read(path: Path) -> dict[str, Any]:
    return tool_use("Read", {"file_path": str(path)})


def edit(path: Path, old: str, new: str) -> dict[str, Any]:
    return tool_use("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


def write(path: Path, content: str) -> dict[str, Any]:
    return tool_use("Write", {"file_path": str(path), "content": content})


def bug_session(shop: Path) -> list[Step]:
    """The first prompt: look, see it fail, repair, see it pass, commit, explain."""
    cart = shop / "shop" / "cart.py"
    grep = {"pattern": "discount", "glob": "*.py", "output_mode": "content", "-n": True}
    return [
        [text("I'll look for where discounts are applied."), tool_use("Grep", grep)],
        read(cart),
        read(shop / "tests" / "test_cart.py"),
        [text("There is a test for it already. Does it fail?"), tool_use("Bash", PYTEST)],
        [
            text("`apply_discount` adds the amount on every call. Codes can be combined, so a set of codes it is."),
            edit(
                cart,
                '        self.discount = Decimal("0.00")\n',
                '        self.discount = Decimal("0.00")\n        self.applied: set[str] = set()\n',
            ),
        ],
        edit(
            cart,
            "        self.discount += DISCOUNTS[code]\n",
            "        if code in self.applied:\n            return\n"
            "        self.discount += DISCOUNTS[code]\n        self.applied.add(code)\n",
        ),
        tool_use("Bash", PYTEST),
        read(shop / "shop" / "views.py"),
        bash('git commit -am "Apply a discount code only once"', "Commit the fix"),
        BUG_ANSWER,
    ]


def yen_session(shop: Path) -> list[Step]:
    """The second prompt: a small feature with a new file."""
    money = shop / "shop" / "money.py"
    grep = {"pattern": r"Money\(|\.format\(", "output_mode": "content", "-n": True}
    table = '@dataclass(frozen=True)\nclass Money:\n    amount: Decimal\n    currency: str = "EUR"\n'
    return [
        tool_use("Grep", grep),
        read(money),
        write(shop / "tests" / "test_money.py", YEN_TESTS),
        tool_use("Bash", PYTEST),
        edit(money, table, f'DECIMALS = {{"JPY": 0}}\n\n\n{table}'),
        edit(
            money,
            '        return f"{self.amount:,.2f} {self.currency}"\n',
            "        decimals = DECIMALS.get(self.currency, 2)\n"
            '        return f"{self.amount:,.{decimals}f} {self.currency}"\n',
        ),
        tool_use("Bash", PYTEST),
        bash('git add -A && git commit -m "Show yen without decimals"', "Commit the change"),
        YEN_ANSWER,
    ]


def make_shop(home: Path) -> Path:
    """The project, as a repository with one commit by somebody."""
    shop = home / "shop"
    for name, content in SHOP.items():
        path = shop / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (home / ".gitconfig").write_text("[user]\nname = Dev\nemail = dev@example.com\n[init]\ndefaultBranch = main\n")
    env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    for command in ("init -q", "add -A", "commit -q -m Shop"):
        subprocess.run(["git", *command.split()], cwd=shop, env=env, check=True)
    return shop


@contextmanager
def stage(script: Callable[[Path], Script], **more: Any) -> Iterator[tuple[Claude, Listener]]:
    """A client in a fresh home with the shop in it, and a hook that hears everything."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory).resolve()
        shop = make_shop(home)
        env = {"PYTHONDONTWRITEBYTECODE": "1", "CLAUDE_CODE_MAX_RETRIES": "0", **more.pop("env", {})}
        with Endpoint(script(shop)) as endpoint:
            claude = Claude(home, shop, endpoint, env=env, **more)
            yield claude, claude.listen((*EVENTS, "StopFailure"))


def neutral(home: Path, payloads: list[Payload]) -> list[Payload]:
    """The same payloads as if they had been sent from /home/dev, also where a path is part of a file's name."""
    raw = json.dumps(payloads, ensure_ascii=False)
    encoded = re.sub(r"[^A-Za-z0-9]", "-", str(home))
    raw = raw.replace(str(home), "/home/dev").replace(encoded, "-home-dev")
    for trace in (str(ROOT), tempfile.gettempdir() + "/", "site-packages", "127.0.0.1"):
        assert trace not in raw, f"{trace} is of this machine: {raw[max(0, raw.find(trace) - 200) :][:400]}"
    result: list[Payload] = json.loads(raw)
    return result


def label(payload: Payload) -> str:
    """The file's name: the event and what tells its payloads apart."""
    names = [payload[key] for key in ("hook_event_name", "source", "reason", "trigger", "tool_name") if key in payload]
    match payload:
        case {"hook_event_name": "SubagentStop", "agent_type": kind}:
            names.append(kind or "compact")  # the summariser is a subagent without a type
        case {"hook_event_name": "StopFailure", "error": kind}:
            names.append(kind)
        case {"agent_id": _}:
            names.append("subagent")
        case {"tool_response": {"status": "async_launched"}}:
            names.append("background")
        case {"prompt": str(prompt)} if prompt.startswith("<task-notification>"):
            names.append("task-notification")
    return ".".join(names)


def keep(claude: Claude, heard: Listener) -> None:
    """Write the first payload of each kind."""
    for payload in neutral(claude.home, heard.payloads()):
        path = RECORDED / f"{label(payload)}.json"
        if not path.exists():
            path.write_text(json.dumps(payload, indent=2, ensure_ascii=False) + "\n")


def apart(main: Sequence[Step], agent: Sequence[Step]) -> Script:
    """Two scripts, for a conversation and a subagent that run side by side."""
    steps = {Kind.MAIN: iter(main), Kind.AGENT: iter(agent)}
    return lambda request: next(steps[request.kind])


def record_tools() -> None:
    """One use of every tool that a payload is kept of, the ways of coming back to a session, and of leaving it."""

    def script(shop: Path) -> Script:
        look = {"description": "List the pages", "prompt": "Which pages are there?", "subagent_type": "Explore"}
        main: list[Step] = [
            *bug_session(shop)[:-1],
            write(shop / "NOTES.md", "Codes are applied once.\n"),
            tool_use("Glob", {"pattern": "**/*.py"}),
            read(shop / "shop" / "checkout.py"),  # which does not exist
            tool_use("TaskCreate", {"subject": "Clear the cached total", "description": "In shop/views.py"}),
            tool_use("TaskUpdate", {"taskId": "1", "status": "completed"}),
            tool_use("Agent", {**look, "run_in_background": False}),
            tool_use("Agent", {**look, "run_in_background": True}),
            "It runs.",
            "There is one page.",
        ]
        agent: list[Step] = [read(shop / "shop" / "views.py"), "checkout_page", "checkout_page"]
        return apart([*main, "Resumed.", "Forked."], agent)

    with stage(script) as (claude, heard):
        session = claude.run(BUG).session_id
        for prompt, *more in (["Go on."], ["/compact"], ["Another way?", "--fork-session"], ["/clear"]):
            claude.run(prompt, f"--resume={session}", *more)
        keep(claude, heard)


def record_todos() -> None:
    """The tool that TaskCreate and TaskUpdate replaced; users of older clients still have it."""
    todos = [{"content": "Find the bug", "status": "in_progress", "activeForm": "Finding the bug"}]
    steps: list[Step] = [tool_use("TodoWrite", {"todos": todos}), "Noted."]
    with stage(lambda _: steps, tools="Read,TodoWrite", env={"CLAUDE_CODE_ENABLE_TASKS": "0"}) as (claude, heard):
        claude.run("Make a list.")
        keep(claude, heard)


def record_automatic_compaction() -> None:
    """The conversation grows past the window in the middle of a round."""
    steps: list[Step] = [
        Reply([bash("git status --short", "Look at the tree")], input_tokens=199_000),
        Reply([bash("git log --oneline", "Look at the history")], input_tokens=199_000),
        "Nothing has changed.",
    ]
    with stage(lambda _: steps) as (claude, heard):
        claude.run("What has changed?", "--autocompact=100k")
        keep(claude, heard)


def record_failures() -> None:
    """The model does not answer: no Stop, another event instead."""
    for fault in (error(401), error(429)):
        with stage(partial(refusing, fault)) as (claude, heard):
            claude.run(BUG, check=False)
            keep(claude, heard)


def refusing(fault: Fault, _: Path) -> Script:
    return lambda _: fault


def record_demo() -> None:
    """One session of two prompts, every hook call in order."""
    with stage(lambda shop: [*bug_session(shop), *yen_session(shop)]) as (claude, heard):
        session = claude.run(BUG).session_id
        claude.run(YEN, f"--resume={session}")
        calls = [{"event": p["hook_event_name"], "payload": p} for p in neutral(claude.home, heard.payloads())]
    DEMO.write_text("".join(json.dumps(call, ensure_ascii=False) + "\n" for call in calls))


def main() -> None:
    for old in RECORDED.glob("*.json"):
        old.unlink()
    for record in (record_tools, record_todos, record_automatic_compaction, record_failures, record_demo):
        record()
    print(f"{len(list(RECORDED.glob('*.json')))} payloads, {len(DEMO.read_text().splitlines())} calls in the demo")


if __name__ == "__main__":
    main()
