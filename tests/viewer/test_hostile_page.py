"""What an agent wrote shows harmlessly, and nobody else gets at the page."""

from __future__ import annotations

from typing import Any

from box import Box
from playwright.sync_api import Browser, expect
from viewer_page import Opener, address, remember

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


def test_a_rebound_name_and_another_site_get_nothing(browser: Browser, machine: Box, open_page: Opener) -> None:
    session = open_page().evaluate("sessionStorage.getItem('session')")
    context = browser.new_context()
    try:
        page = context.new_page()
        answer = page.goto(address(machine).replace("127.0.0.1", "evil.test"))
        assert answer is not None and answer.status == 403
        # `localhost` is another site than 127.0.0.1 for a browser, and its pages are not ours.
        page.goto(address(machine).replace("127.0.0.1", "localhost"))
        ask = """([url, session]) => fetch(url, {headers: {Authorization: `Backstory-Session ${session}`}})
            .then((answer) => answer.status, (error) => String(error))"""
        got: Any = page.evaluate(ask, [address(machine) + "api/feed", session])
        assert got != 200
    finally:
        context.close()


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
