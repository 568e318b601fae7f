"""Embedders turn texts into vectors. Each has a name for its vectors and one function from texts to vectors."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.errors import BackstoryError
from backstory.settings import environment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Run = Callable[[Sequence[str], Mapping[str, float]], Matrix]

#: Characters of a text that are embedded. Full-text search indexes all of it.
MAX_CHARS = 2000
#: Timeout in seconds of an endpoint for several texts.
TIMEOUT_S = 30.0
#: Timeout in seconds for a single text, which is mostly a query that somebody waits for.
TIMEOUT_ONE_S = 3.0
#: Maximum bytes of a response.
MAX_RESPONSE_BYTES = 64 << 20
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "text-embedding-3-small"
FASTEMBED_MODEL = "BAAI/bge-small-en-v1.5"


NONE: Mapping[str, float] = {}
_WORD = re.compile(r"[^\W_]+")


class EmbedderUnavailable(BackstoryError):
    """The embedder is not available."""

    hint = (
        "Search uses words only until it is. `backstory config set embedder static` selects one that needs no network."
    )
    status = 503


class TextRefused(EmbedderUnavailable):
    """The embedder rejected this text."""


@dataclass(frozen=True, slots=True)
class Embedder:
    """Makes vectors. Only vectors of the same name can be compared."""

    name: str
    run: Run

    def embed(self, texts: Sequence[str], weights: Mapping[str, float] = NONE) -> Matrix:
        """Return one row per text, normalised to length 1; all zeros for a text without words. `weights` maps words in
        lower case to weights other than 1. Some embedders ignore them."""
        import numpy as np

        vectors = np.ascontiguousarray(self.run([text[:MAX_CHARS] for text in texts], weights), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise EmbedderUnavailable("The embedder returned invalid vectors.")
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(length > 0, length, np.float32(1))
        return vectors


def named(name: str) -> Embedder:
    """Return the embedder of a name: `kind`, or `kind model url`. Its model is loaded on first use."""
    kind, model, url = (*name.split(" "), "", "")[:3]
    make = EMBEDDERS[kind]
    return Embedder(name, _Lazy(partial(make, model, url)))


def name_of(kind: str, model: str = "", url: str = "") -> str:
    """Return the name of an embedder's vectors; empty if embedding is off."""
    if kind == "off":
        return ""
    if kind == "openai":
        # Without user and password, because the name is stored and shown. A key belongs into OPENAI_API_KEY.
        address = re.sub(r"(?<=://)[^/@]*@", "", (url or OPENAI_URL).rstrip("/"))
        return f"{kind} {model or OPENAI_MODEL} {address}"
    return f"{kind} {model or FASTEMBED_MODEL}" if kind == "fastembed" else kind


class _Lazy:
    """Loads an embedder on first use, so that a worker that embeds nothing loads nothing."""

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._run: Run | None = None

    def __call__(self, texts: Sequence[str], weights: Mapping[str, float]) -> Matrix:
        with self._lock:
            try:
                self._run = self._run or self._make()
            except (ImportError, OSError, ValueError, KeyError) as error:
                raise EmbedderUnavailable(f"The embedder could not be loaded ({type(error).__name__}).") from None
        return self._run(texts, weights)


def _static(model: str, url: str) -> Run:
    """The mean of the vectors of all word pieces. The weights are read from the files of the package `wordllama`:
    importing it would need several times the memory."""
    import numpy as np
    from tokenizers import Tokenizer

    spec = util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("wordllama")
    folder = Path(spec.submodule_search_locations[0])
    pieces = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        shape = tuple(json.loads(file.read(size))["embedding.weight"]["shape"])
    table = np.memmap(weights, dtype=np.float16, mode="r", offset=8 + size, shape=shape)

    def run(texts: Sequence[str], weights: Mapping[str, float]) -> Matrix:
        vectors = np.zeros((len(texts), shape[1]), dtype=np.float32)
        for row, text in enumerate(texts):
            # One text at a time: a batch would use every core and slow hooks down.
            encoding = pieces.encode(text, add_special_tokens=False)
            if encoding.ids and weights:
                vectors[row] = _weights(text, encoding.offsets, weights) @ table[encoding.ids].astype(np.float32)
            elif encoding.ids:
                vectors[row] = table[encoding.ids].mean(axis=0, dtype=np.float32)
        return vectors

    return run


def _weights(text: str, offsets: Sequence[tuple[int, int]], weights: Mapping[str, float]) -> list[float]:
    """Return the weight of each word piece, which is that of its word."""
    by_position = [1.0] * (len(text) + 1)
    for word in _WORD.finditer(text):
        by_position[word.start() : word.end()] = [weights.get(word[0].lower(), 1.0)] * (word.end() - word.start())
    return [by_position[end - 1] if end else 1.0 for _, end in offsets]


def _openai(model: str, url: str) -> Run:
    """Any endpoint with OpenAI's `/embeddings` API: OpenAI, Ollama, vLLM, LM Studio, text-embeddings-inference."""
    import numpy as np

    if not url.startswith(("http://", "https://")):
        raise ValueError(url)
    # Redirects are not followed, because the key must not be sent to another address.
    opener = urllib.request.build_opener(_NoRedirects)
    key = environment().get("OPENAI_API_KEY", "")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def run(texts: Sequence[str], weights: Mapping[str, float]) -> Matrix:
        # Many endpoints reject an empty text.
        body = json.dumps({"model": model, "input": [text or " " for text in texts], "encoding_format": "float"})
        request = urllib.request.Request(f"{url}/embeddings", body.encode(), headers)  # noqa: S310 - checked above
        try:
            with opener.open(request, timeout=TIMEOUT_S if len(texts) > 1 else TIMEOUT_ONE_S) as response:
                rows: list[Any] = json.loads(response.read(MAX_RESPONSE_BYTES))["data"]
            ordered = sorted(rows, key=lambda row: row["index"])
            return np.array([row["embedding"] for row in ordered], dtype=np.float32)
        except urllib.error.HTTPError as error:
            kind = TextRefused if error.code in (400, 413, 422) else EmbedderUnavailable
            raise kind(f"The embeddings endpoint answered with {error.code}.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = f"The embeddings endpoint could not be reached ({type(error).__name__})."
            raise EmbedderUnavailable(message) from None

    return run


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _fastembed(model: str, url: str) -> Run:
    """The library fastembed, which downloads the configured model."""
    import numpy as np
    from fastembed import TextEmbedding  # type: ignore[import-not-found]

    try:
        loaded = TextEmbedding(model_name=model, threads=1)
    except Exception as error:  # the download may raise anything
        raise EmbedderUnavailable(f"fastembed could not load its model ({type(error).__name__}).") from None
    return lambda texts, weights: np.array(list(loaded.embed(list(texts))), dtype=np.float32)


#: setting `embedder` -> function that loads it, given model and URL
EMBEDDERS: dict[str, Callable[[str, str], Run]] = {"static": _static, "openai": _openai, "fastembed": _fastembed}
