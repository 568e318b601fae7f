"""Texts as vectors. An embedder is a row: what its vectors are known by, and one function from texts to vectors."""

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

#: What is embedded of a text; the words of all of it are indexed.
CHARS = 2000
#: An endpoint's time for many texts, and for one: somebody waits for the answer to a search.
ANSWER_S, ANSWER_ONE_S = 30.0, 3.0
ANSWER_BYTES = 64 << 20
OPENAI_URL, OPENAI_MODEL = "https://api.openai.com/v1", "text-embedding-3-small"
FASTEMBED_MODEL = "BAAI/bge-small-en-v1.5"


NONE: Mapping[str, float] = {}
_WORD = re.compile(r"[^\W_]+")


class Away(BackstoryError):
    """The embedder can not be used now."""

    hint = "Search goes by words alone until it can; `backstory config set embedder static` needs nothing else."
    status = 503


class TextRefused(Away):
    """The embedder does not take this text."""


@dataclass(frozen=True, slots=True)
class Embedder:
    """What makes vectors. Those of another name are not to be compared with its own."""

    name: str
    run: Run

    def embed(self, texts: Sequence[str], weights: Mapping[str, float] = NONE) -> Matrix:
        """A row a text, each of length 1; a text that says nothing is all zeros. Words in lower case may count more
        or less than 1, where the embedder can do that."""
        import numpy as np

        found = np.ascontiguousarray(self.run([text[:CHARS] for text in texts], weights), dtype=np.float32)
        if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
            raise Away("The embedder answered with something that is no vectors.")
        length = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(length > 0, length, np.float32(1))
        return found


def named(name: str) -> Embedder:
    """An embedder by what its vectors are known by: `kind`, or `kind model url`. Nothing is loaded yet."""
    kind, model, url = (*name.split(" "), "", "")[:3]
    make = EMBEDDERS[kind]
    return Embedder(name, _Once(partial(make, model, url)))


def name_of(kind: str, model: str = "", url: str = "") -> str:
    """What the vectors of such an embedder are known by; nothing, if there are to be none."""
    if kind == "off":
        return ""
    if kind == "openai":
        # Without a name and password: this is kept and shown. A key goes into its own variable.
        place = re.sub(r"(?<=://)[^/@]*@", "", (url or OPENAI_URL).rstrip("/"))
        return f"{kind} {model or OPENAI_MODEL} {place}"
    return f"{kind} {model or FASTEMBED_MODEL}" if kind == "fastembed" else kind


class _Once:
    """What is loaded with the first text: a worker that embeds nothing pays nothing."""

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._run: Run | None = None

    def __call__(self, texts: Sequence[str], weights: Mapping[str, float]) -> Matrix:
        with self._lock:
            try:
                self._run = self._run or self._make()
            except (ImportError, OSError, ValueError, KeyError) as error:
                raise Away(f"The embedder can not be loaded ({type(error).__name__}).") from None
        return self._run(texts, weights)


def _static(model: str, url: str) -> Run:
    """The mean of what each word piece stands for, from the weights in the package `wordllama`.

    They are read from its folder: the package itself imports and copies several times as much.
    """
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
        found = np.zeros((len(texts), shape[1]), dtype=np.float32)
        for row, text in enumerate(texts):
            # One by one: many at once would take every core, and hooks want theirs.
            cut = pieces.encode(text, add_special_tokens=False)
            if cut.ids and weights:
                found[row] = _weights(text, cut.offsets, weights) @ table[cut.ids].astype(np.float32)
            elif cut.ids:
                found[row] = table[cut.ids].mean(axis=0, dtype=np.float32)
        return found

    return run


def _weights(text: str, places: Sequence[tuple[int, int]], weights: Mapping[str, float]) -> list[float]:
    """What each piece counts: as much as the word it lies in."""
    at = [1.0] * (len(text) + 1)
    for word in _WORD.finditer(text):
        at[word.start() : word.end()] = [weights.get(word[0].lower(), 1.0)] * (word.end() - word.start())
    return [at[end - 1] if end else 1.0 for _, end in places]


def _openai(model: str, url: str) -> Run:
    """Any endpoint that speaks OpenAI's `/embeddings`: its own, Ollama, vLLM, LM Studio, text-embeddings-inference."""
    import numpy as np

    if not url.startswith(("http://", "https://")):
        raise ValueError(url)
    # The key is for this address: it does not follow a redirect to another.
    opener = urllib.request.build_opener(_Stay)
    key = environment().get("OPENAI_API_KEY", "")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def run(texts: Sequence[str], weights: Mapping[str, float]) -> Matrix:
        # Many endpoints refuse a text that is empty.
        body = json.dumps({"model": model, "input": [text or " " for text in texts], "encoding_format": "float"})
        request = urllib.request.Request(f"{url}/embeddings", body.encode(), headers)  # noqa: S310 - checked above
        try:
            with opener.open(request, timeout=ANSWER_S if len(texts) > 1 else ANSWER_ONE_S) as answer:
                rows: list[Any] = json.loads(answer.read(ANSWER_BYTES))["data"]
            ordered = sorted(rows, key=lambda row: row["index"])
            return np.array([row["embedding"] for row in ordered], dtype=np.float32)
        except urllib.error.HTTPError as error:
            kind = TextRefused if error.code in (400, 413, 422) else Away
            raise kind(f"The embeddings endpoint answered with {error.code}.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Away(f"The embeddings endpoint could not be asked ({type(error).__name__}).") from None

    return run


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _fastembed(model: str, url: str) -> Run:
    """The library fastembed, which downloads the model that the user names."""
    import numpy as np
    from fastembed import TextEmbedding  # type: ignore[import-not-found]

    try:
        loaded = TextEmbedding(model_name=model, threads=1)
    except Exception as error:  # whatever its download ends with
        raise Away(f"fastembed can not load its model ({type(error).__name__}).") from None
    return lambda texts, weights: np.array(list(loaded.embed(list(texts))), dtype=np.float32)


#: setting `embedder` -> how it is loaded, given model and address
EMBEDDERS: dict[str, Callable[[str, str], Run]] = {
    "static": _static,
    "openai": _openai,
    "fastembed": _fastembed,
}
