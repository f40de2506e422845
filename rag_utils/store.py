"""Results kept on disk by the hash of what made them: vectors, rerank scores, enriched fields, replies.

One SQLite file a kind. Readers never wait for a writer (write-ahead log) and writers wait for each other, so several
processes and threads may share one file.
"""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SECONDS_TO_WAIT = 60  # for another process that writes
_KEYS_A_QUERY = 500  # SQLite allows 999 parameters in its oldest builds


class StoreError(RuntimeError):
    """A store that cannot be read or written; the message names the file and what to do."""


class Store:
    """A persistent mapping from text to bytes, safe under several processes.

    Args:
        path: The SQLite file; it and its folder are made on demand.

    Raises:
        StoreError: The file is damaged, is no store, or cannot be opened, here and in every method.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_SECONDS_TO_WAIT, check_same_thread=False)
            _write_ahead(self._connection)
            self._connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last entries, no more
            table = "entries (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
            with self._connection:
                self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def get(self, key: str) -> bytes | None:
        """The value, or None when there is none."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The values of those keys that are there."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, bytes] = {}
        with self._lock, self._errors():
            for start in range(0, len(wanted), _KEYS_A_QUERY):
                group = wanted[start : start + _KEYS_A_QUERY]
                marks = ",".join("?" * len(group))
                found.update(self._connection.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", group))
        return found

    def put(self, key: str, value: bytes) -> None:
        """Keep one value; an older one under the same key is replaced."""
        self.put_many({key: value})

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Keep all the values, or, when this fails, none of them."""
        with self._lock, self._errors(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def __len__(self) -> int:
        with self._lock, self._errors():
            return self._connection.execute("SELECT COUNT(*) FROM entries").fetchone()[0]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:  # a value that is no bytes: the caller's mistake, not the file's
            raise
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"{self.path}: {error}; check that the folder can be written, that the disk has room and that no other "
                "process holds the file"
            ) from error
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self.path}: {error}; it is only a cache: delete it, with the -wal and -shm files beside it, and run "
                "again"
            ) from error


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log; SQLite does not wait when another process is doing the same."""
    deadline = time.monotonic() + _SECONDS_TO_WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def digest(*parts: str) -> str:
    """SHA-256 of the parts as 64 hex digits; ("ab", "c") and ("a", "bc") differ."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()
