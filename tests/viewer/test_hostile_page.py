"""What an agent wrote shows harmlessly, and nobody else gets at the page."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from box import Box
from playwright.sync_api import Browser, expect
from viewer_page import Opener, address, remember, visit

HOSTILE = """<script>window.hacked = 1</script><img src="http://evil.test/a.png" onerror="window.hacked = 2">
<svg onload="window.hacked = 3"></svg> <iframe src="http://evil.test"></iframe>
[click](javascript:window.hacked=4) ![picture](http://evil.test/b.png) <http://evil.test/c> http://evil.test/d
[ref]: http://evil.test/e "title"
<style>* { display: none }</style><base href="http://evil.test/"><meta http-equiv="refresh" content="0;url=//evil.test">
\x1b[2J\x1b]0;owned\x07 \u202egpj.exe\u202c \u2066hidden\u2069 a\u200bb

| a | b |
|---|---|
| <b onclick="window.hacked = 5">x</b> | [y](data:text/html,<script>window.hacked=6</script>) |

```html
<script>window.hacked = 7</script>
```
"""


def test_a_hostile_observation_is_text(machine: Box, open_page: Opener) -> None:
    row = remember(machine, HOSTILE, title="<img src=x onerror=window.hacked=8> `<script>` \x1b[31mred \u202eevil")
    page = open_page()
    expect(page.locator(".card .title").first).to_contain_text("<img src=x onerror=window.hacked=8>")
    for fragment in (f"#/o/{row['id']}", "#/search?q=hacked", "#/context", f"#/o/{row['id']}?edit=1"):
        page.goto(address(machine, fragment))
        expect(page.get_by_text("window.hacked").first).to_be_visible()
        assert page.evaluate("window.hacked") is None
        assert page.locator("main :is(img, iframe, script, style, svg, base, meta, object, embed)").count() == 0
        links = page.eval_on_selector_all("a", "all => all.map((link) => link.getAttribute('href'))")
        assert all(link.startswith("#") for link in links), links
    page.goto(address(machine, f"#/o/{row['id']}"))
    said = page.locator("main").inner_text()
    assert "\x1b" not in said and "\u202e" not in said and "\u200b" not in said
    assert "\\x1b[2J" in said and "\\u{202e}" in said
    # The fixture holds that no request went anywhere but to the worker.


def test_hostile_names_are_text(machine: Box, open_page: Opener) -> None:
    """Names of projects, branches, tools, files and agents' ids come from others, too."""
    evil = machine.root / "<img src=x onerror=window.hacked=1>\u202e\x1b[2Jshop"
    (evil / ".git").mkdir(parents=True)
    (evil / ".git/HEAD").write_text("ref: refs/heads/\u2066<b>main\u202e\n")
    about = {"session_id": "\u202eevil<script>", "cwd": str(evil)}
    machine.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": "Name the file."})
    use: dict[str, Any] = {"tool_name": "Edit\u202e<script>", "tool_use_id": "evil", "tool_response": "done"}
    use["tool_input"] = {
        "file_path": f"{evil}/\u202egpj.<svg onload=window.hacked=2>",
        "old_string": "a",
        "new_string": "b",
    }
    machine.client.post("/hooks/claude-code/PostToolUse", about | use)
    said = "Fixed: the file is named as it should be, because its ending was wrong."
    machine.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": said})
    machine.settle()
    session = machine.client.get("/api/sessions")["items"][0]
    assert session["content_session_id"] == about["session_id"]
    page = open_page()
    for fragment in ("#/", "#/search?q=ending", "#/context", "#/sessions", f"#/s/{session['id']}", "#/stats"):
        visit(page, machine, fragment)
        page.eval_on_selector_all("main details", "all => all.forEach((one) => { one.open = true })")
        expect(page.get_by_text("onerror=window.hacked").first).to_be_attached()
        assert page.evaluate("window.hacked") is None
        assert page.locator("main :is(img, svg, b, script)").count() == 0
        assert not re.search("[\x1b\u202e\u2066]", page.locator("main").inner_text()), fragment


def test_without_the_credential_nothing_is_shown(browser: Browser, machine: Box) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(address(machine))
        expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
        expect(page.locator("article")).to_have_count(0)
        code = machine.client.post("/api/open")["code"]
        page.goto(address(machine, f"#code={code}"))
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.reload()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        assert code not in page.url
        tab = context.new_page()  # one more of the same browser
        tab.goto(address(machine))
        expect(tab.get_by_text("Live", exact=True)).to_be_visible()
        other = context.new_page()
        other.goto(address(machine, f"#code={code}"))
        expect(other.get_by_text("This link was used already, or it has expired.")).to_be_visible()
    finally:
        context.close()


@pytest.mark.parametrize("fragment", ["#/health", "#/settings"])
def test_what_anybody_is_told_of_the_worker_is_no_state_of_it(browser: Browser, machine: Box, fragment: str) -> None:
    """A page whose session has ended says so, also if the answer that all may have comes first."""
    context, wrong = browser.new_context(), list[str]()
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.route(re.compile("/api/(?!health)"), lambda route: None)  # no other answer comes
        page.goto(address(machine, fragment))
        expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    finally:
        context.close()
    assert not wrong


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Another site on this machine: an empty page at a port of its own."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><body>")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


#: A page that knows the session of a browser, an unused code, and an observation. It returns what it could read.
ATTACK = """async ([worker, session, code, id]) => {
    const own = {Authorization: `Backstory-Session ${session}`};
    const forget = {method: "POST", body: JSON.stringify({ids: [id]})};
    const read = (url, init) => fetch(url, init).then((answer) => answer.status, () => 0);
    const load = (name, url) => new Promise((done) => {
        const element = document.body.appendChild(document.createElement(name));
        element.onload = () => done(200);
        element.onerror = () => done(0);
        element.src = url;
    });
    return {
        feed: await read(`${worker}api/feed`, {headers: own}),
        stream: await read(`${worker}api/stream`, {headers: own}),
        token: await read(`${worker}api/open`, {...forget, headers: own}),
        forget: await read(`${worker}api/forget`, {...forget, headers: own}),
        blind: await read(`${worker}api/forget`, {...forget, mode: "no-cors", credentials: "include"}),
        enter: await read(`${worker}open`, {method: "POST", body: JSON.stringify({code})}),
        script: await load("script", `${worker}assets/viewer.js`),
        data: await load("script", `${worker}api/feed`),
        picture: await load("img", `${worker}assets/icon.svg`),
    };
}"""


FRAME = """url => new Promise((done) => {
    const frame = document.body.appendChild(document.createElement("iframe"));
    frame.onload = done;
    frame.src = url;
})"""


def test_another_site_gets_nothing(browser: Browser, machine: Box, open_page: Opener, site: str) -> None:
    """Not even with the session of a browser, from a page in the same one."""
    row = remember(machine, "Another site would like to forget this")
    viewer = open_page()
    session = viewer.evaluate("sessionStorage.getItem('session')")
    code = machine.client.post("/api/open")["code"]
    page = viewer.context.new_page()
    answers: set[tuple[str, int]] = set()
    page.on("response", lambda answer: answers.add((urlsplit(answer.url).path, answer.status)))
    page.goto(site)
    got = page.evaluate(ATTACK, [address(machine), session, code, row["id"]])
    assert not any(got.values()), got
    assert ("/api/forget", 403) in answers  # what no other site may read, it can still send
    assert machine.client.get(f"/api/observations/{row['id']}")["title"] == row["title"]
    page.evaluate(FRAME, address(machine))
    assert page.frames[-1].url.startswith("chrome-error:")
    with viewer.context.expect_page() as opened:
        page.evaluate("url => { window.other = open(url) }", address(machine))
    expect(opened.value.get_by_text("Live", exact=True)).to_be_visible()  # as a tab of its own
    assert page.evaluate("other.closed")
    viewer.goto(address(machine, f"#code={code}"))  # the code is not used up
    expect(viewer.get_by_text("Live", exact=True)).to_be_visible()


def test_a_rebound_name_gets_nothing(browser: Browser, machine: Box, open_page: Opener) -> None:
    """The page of another site came from its own server. Then its name leads to the worker."""
    row = remember(machine, "A rebound name would like to forget this")
    session = open_page().evaluate("sessionStorage.getItem('session')")
    code = machine.client.post("/api/open")["code"]
    evil = address(machine).replace("127.0.0.1", "evil.test")
    context = browser.new_context()
    try:
        page = context.new_page()
        page.route(evil, lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"), times=1)
        page.goto(evil)
        got = page.evaluate(ATTACK, [evil, session, code, row["id"]])
        assert {status for status in got.values() if status} == {403}, got
        answer = page.goto(evil)
        assert answer is not None and answer.status == 403
    finally:
        context.close()
    assert machine.client.get(f"/api/observations/{row['id']}")["title"] == row["title"]


def test_the_policy_lets_no_script_in(browser: Browser, machine: Box) -> None:
    policy = machine.http("GET", "/", token=False).headers["content-security-policy"]
    assert "unsafe" not in policy and "require-trusted-types-for 'script'" in policy
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(address(machine))
        add = """() => {
            const script = document.createElement("script");
            try { script.text = "window.hacked = 9"; document.body.append(script); } catch { }
            return String(window.hacked);
        }"""
        assert page.evaluate(add) == "undefined"
    finally:
        context.close()
