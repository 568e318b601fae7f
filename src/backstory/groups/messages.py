"""Messages to the agent of a group, as files in `ipc/{group}/input`, and the file that ends its run."""

from __future__ import annotations

import json
import os
import time

from backstory.groups.ipc_files import CLOSE, IpcFiles

FOLDER = "input"


def put_message(files: IpcFiles, text: str) -> None:
    """Leave a message. They are taken in the order of their names, so of their times."""
    data = json.dumps({"type": "message", "text": text}).encode()
    files.put(FOLDER, f"{time.time_ns():020}-{os.urandom(4).hex()}.json", data)


def take_messages(files: IpcFiles) -> list[str]:
    """Take the messages that are there. What is no message is set aside."""
    texts = []
    for file in files.take(FOLDER):
        try:
            value = json.loads(file.data)
            if value["type"] != "message" or not isinstance(value["text"], str):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            files.set_aside(file.name, file.data)
        else:
            texts.append(value["text"])
    return [text for text in texts if text.strip()]


def take_close(files: IpcFiles) -> bool:
    """Remove the file that ends a run. Return whether it was there."""
    return files.remove(FOLDER, CLOSE)
