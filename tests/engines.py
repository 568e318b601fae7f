"""What the tests of the store know about its engines."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import psycopg

from backstory.store.db import Store

#: What an engine says when a rule of the tables is broken.
BROKEN_RULE = (sqlite3.IntegrityError, psycopg.IntegrityError)
#: Opens the test's database once more, as another worker would.
Opener = Callable[[], Store]
