"""A scripted model on loopback: it speaks the Messages API and chat completions, so that real clients run offline."""

import contextlib
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

Block = dict[str, Any]

SUMMARY = "<analysis>In order.</analysis>\n\n<summary>A change was asked for, made and tested.</summary>"

# What the client's side calls ask for (a title, a name, a verdict) is JSON; these keys satisfy all of them.
SIDE_ANSWER = '{"title": "A scripted session", "name": "a-scripted-session", "ok": true}'


def text(words: str) -> Block:
    """The model says something."""
    return {"type": "text", "text": words}


def tool_use(name: str, arguments: Mapping[str, Any]) -> Block:
    """The model calls a tool of the client's."""
    return {"type": "tool_use", "id": f"toolu_01{uuid4().hex[:22]}", "name": name, "input": dict(arguments)}


@dataclass(frozen=True)
class Reply:
    """A whole answer, for a script that also says what it cost (a large number makes the client compact), or that it
    was cut by the limit of tokens."""

    blocks: Sequence[Block]
    input_tokens: Any = None
    output_tokens: Any = None
    is_cut: bool = False


@dataclass(frozen=True)
class Fault:
    """An answer that is not one: a status, a page of HTML, half an answer, or silence."""

    status: int = 500
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    hangs: bool = False


@dataclass(frozen=True)
class Held:
    """An answer that is ready and given only when it is let go."""

    until: threading.Event
    words: str


def error(status: int, retry_after: int | None = None, message: str = "The endpoint was told to fail.") -> Fault:
    """The API's own error body; a client that honours Retry-After waits that long."""
    kinds = {401: "authentication_error", 402: "billing_error", 429: "rate_limit_error", 529: "overloaded_error"}
    body = json.dumps({"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}})
    return Fault(status, body, {} if retry_after is None else {"Retry-After": str(retry_after)})


def html(status: int = 502) -> Fault:
    """What a proxy in between says when it knows better."""
    return Fault(status, "<html><body><h1>Bad Gateway</h1></body></html>", {"Content-Type": "text/html"})


def hang() -> Fault:
    """No answer until the endpoint closes."""
    return Fault(hangs=True)


def half(*blocks: Block) -> Fault:
    """The first half of the bytes of an answer, then the connection is gone."""
    return Fault(200, blocks=blocks or [text("An answer that breaks off in the middle of what it had to say.")])


def answer(request: "Request", every: int = 5) -> str:
    """What a good observer says to one of our questions: an observation for every five events, a summary if asked."""
    asked = request.texts("user")[-1]
    mark = re.findall(r'<memory round="(\w+)">', asked)[-1]
    numbers = [int(n) for n in re.findall(r'<(?:event n|said event)="(\d+)"', asked)]
    files = "".join(f"<file>{name}</file>" for name in dict.fromkeys(re.findall(r"^file_path: (\S+)", asked, re.M)))
    told = "".join(
        f"<observation><type>bugfix</type><title>Told {mark} {at}</title><subtitle>It works</subtitle>"
        f"<facts><fact>A fact of {mark}</fact></facts><narrative>So it was.</narrative>"
        f"<concepts><concept>gotcha</concept></concepts><files_read>{files}</files_read>"
        f"<files_modified>{files}</files_modified><events>{numbers[at]}</events></observation>"
        for at in range(0, len(numbers), every)
    )
    if "<summary>" in asked:
        told += "<summary><request>A request</request><completed>All done</completed></summary>"
    return f'<memory round="{mark}">{told}</memory>'


class Kind(StrEnum):
    """Why the client asked. Only the first two are the script's to answer."""

    MAIN = "main"  # the conversation
    AGENT = "agent"  # a subagent's
    COMPACT = "compact"  # the client wants its conversation summarised
    SIDE = "side"  # a title, a name, a probe


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    kind: Kind
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: dict[str, Any]
    at: float  # time.monotonic()

    def texts(self, role: str | None = None) -> list[str]:
        """Every text of the messages in order; SessionStart's context is found among those of the role `system`."""
        return [words for m in self.body.get("messages", []) if role in (None, m["role"]) for words in _texts(m)]


Step = str | Block | Sequence[Block] | Reply | Fault | Held
Script = Iterable[Step] | Callable[[Request], Step]


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content") or ""
    if isinstance(content, str):
        yield content
    else:
        yield from (block["text"] for block in content if block.get("type") == "text")


def _kind(headers: Mapping[str, str], body: Mapping[str, Any]) -> Kind:
    """Tell the conversation from what the client asks beside it, by what Claude Code is seen to send."""
    if not headers.get("user-agent", "").startswith("claude-cli"):
        return Kind.MAIN  # our own providers have no side calls
    asked = [m for m in body["messages"] if m["role"] == "user"]  # what hooks add may stand after it, as `system`
    if "Your task is to create a detailed summary of the conversation" in "".join(_texts(asked[-1])):
        return Kind.COMPACT
    # A locked-down client offers no tools in its conversation either, but never dictates the answer's format there.
    formatted = "format" in (body.get("output_config") or {})
    if body.get("max_tokens", 0) <= 1 or "tools" not in body or (not body["tools"] and formatted):
        return Kind.SIDE
    return Kind.AGENT if "x-claude-code-agent-id" in headers else Kind.MAIN


class Endpoint:
    """A model that answers from a script: a list of steps, one for each request, or a function of the request.

    A step is a text, a block, blocks, a Reply or a Fault. A list that has run out answers `Done.`, so that the client
    ends; closing the endpoint then raises, as it does after a function's error.
    """

    def __init__(self, script: Script = (), port: int = 0) -> None:
        self.requests: list[Request] = []
        self.problem: BaseException | None = None
        self._script = script if callable(script) else iter(script)
        self._arrived = threading.Condition()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def of(self, *kinds: Kind) -> list[Request]:
        """The requests of these kinds, in order of arrival; of the conversation's if none is named."""
        return [r for r in self.requests if r.kind in (kinds or (Kind.MAIN,))]

    def wait(self, count: int, timeout: float = 30) -> None:
        """Return as soon as so many requests of whatever kind have arrived."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {timeout} s")

    def answer(self, request: Request) -> Reply | Fault:
        """Note the request and take the next step, under one lock, so that each step is used once."""
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            fixed = {Kind.COMPACT: SUMMARY, Kind.SIDE: SIDE_ANSWER}.get(request.kind)
            step = fixed or self._next(request)
        if isinstance(step, Held):
            step.until.wait(30)
            step = step.words
        return _reply(step)

    def _next(self, request: Request) -> Step:
        if callable(self._script):
            return self._script(request)
        for step in self._script:
            return step
        self.problem = AssertionError(f"the script ran out: {request.texts('user')[-1:]} was not foreseen")
        return "Done."

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._server.close()
        self._thread.join()
        if self.problem and not kind:
            raise self.problem


def _reply(step: str | Block | Sequence[Block] | Reply | Fault) -> Reply | Fault:
    if isinstance(step, Reply | Fault):
        return step
    block = text(step) if isinstance(step, str) else step
    return Reply([block] if isinstance(block, dict) else block)


class _Server(ThreadingHTTPServer):
    """A thread for each connection; closing ends and joins them all, even those that hang."""

    def __init__(self, endpoint: Endpoint, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.endpoint = endpoint
        self.closing = threading.Event()
        self._talks: dict[socket.socket, threading.Thread] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        talk = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._talks[request] = talk
        talk.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what is the script's fault; a client that goes away in the middle is part of what tests do."""
        problem = sys.exception()
        if not isinstance(problem, ConnectionError):
            self.endpoint.problem = problem

    def close(self) -> None:
        self.shutdown()
        self.closing.set()
        for connection, thread in self._talks.items():
            with contextlib.suppress(OSError):  # the client was first
                connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for the next request
            thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Tests read `requests`, not a log."""

    def do_GET(self) -> None:
        self._send(200, b"")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # its sender was killed
            self.close_connection = True
            return
        body = json.loads(raw or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages/count_tokens"):
            return self._send(200, json.dumps({"input_tokens": _tokens(body)}).encode())
        if not path.endswith(("/messages", "/chat/completions")):
            return self._send(404, error(404).body.encode())
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(_kind(headers, body), path, headers, body, time.monotonic())
        self._answer(body, self.server.endpoint.answer(request))

    def _answer(self, body: dict[str, Any], answer: Reply | Fault) -> None:
        if isinstance(answer, Fault) and answer.hangs:
            self.server.closing.wait()
            self.close_connection = True
        elif isinstance(answer, Fault) and not answer.blocks:
            self._send(answer.status, answer.body.encode(), answer.headers)
        else:
            message = _completion(body, answer) if self.path.endswith("/completions") else _message(body, answer)
            payload = "".join(_stream(message)) if body.get("stream") else json.dumps(message)
            kind = {"Content-Type": "text/event-stream"} if body.get("stream") else {}
            self._send(200, payload.encode(), kind, whole=isinstance(answer, Reply))

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None, whole: bool = True) -> None:
        self.send_response(status)
        sent = {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(body))}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if whole else body[: len(body) // 2])
        self.close_connection = self.close_connection or not whole


def _tokens(value: object) -> int:
    """Near enough: four characters are a token."""
    return len(json.dumps(value)) // 4


def _message(body: Mapping[str, Any], answer: Reply | Fault) -> dict[str, Any]:
    blocks = list(answer.blocks)
    whole = answer if isinstance(answer, Reply) else Reply(blocks)
    usage = {
        "input_tokens": _tokens(body) if whole.input_tokens is None else whole.input_tokens,
        "output_tokens": _tokens(blocks) if whole.output_tokens is None else whole.output_tokens,
    }
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    stop = "max_tokens" if whole.is_cut else stop
    named = {"id": f"msg_01{uuid4().hex[:22]}", "model": body.get("model", "none")}
    said = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": stop, "stop_sequence": None}
    return {**named, **said, "usage": usage}


def _completion(body: Mapping[str, Any], answer: Reply | Fault) -> dict[str, Any]:
    """The same answer in the form of chat completions."""
    message = _message(body, answer)
    words = "".join(block["text"] for block in answer.blocks if block["type"] == "text")
    finished = "length" if isinstance(answer, Reply) and answer.is_cut else "stop"
    choice = {"index": 0, "finish_reason": finished, "message": {"role": "assistant", "content": words}}
    usage = {"prompt_tokens": message["usage"]["input_tokens"], "completion_tokens": message["usage"]["output_tokens"]}
    usage |= {"total_tokens": 0}
    named = {"id": message["id"], "object": "chat.completion", "created": 1, "model": message["model"]}
    return {**named, "choices": [choice], "usage": usage}


def _stream(message: dict[str, Any]) -> Iterator[str]:
    """The same message as the server-sent events of the API."""
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=begun)
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            arguments = json.dumps(block["input"])
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": arguments}
        yield _event("content_block_start", index=index, content_block=start)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def _event(kind: str, **data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
