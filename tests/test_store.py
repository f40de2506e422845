"""The store on disk: what comes back, what several processes may do, what a damaged file says."""

import hashlib
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_utils.store import Store, StoreError, digest


def test_values_come_back_and_outlive_the_object(tmp_path):
    store = Store(tmp_path / "new folder" / "s.sqlite")
    store.put("a", b"\x00\xff")
    store.put_many({"b": b"", "c": b"third"})
    again = Store(tmp_path / "new folder" / "s.sqlite")
    assert again.get_many(["c", "a", "missing", "a"]) == {"a": b"\x00\xff", "c": b"third"}
    assert again.get("b") == b"" and again.get("missing") is None
    assert len(again) == 3


def test_a_later_value_replaces_an_earlier_one(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.put("a", b"old")
    store.put("a", b"new")
    assert store.get("a") == b"new" and len(store) == 1


def test_more_keys_than_one_statement_takes(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.put_many({str(i): str(i).encode() for i in range(2345)})
    found = store.get_many(str(i) for i in range(3000))
    assert found == {str(i): str(i).encode() for i in range(2345)}


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    with pytest.raises(sqlite3.IntegrityError):
        store.put_many({"good": b"1", "bad": None})
    assert len(store) == 0


def test_threads_share_one_store(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: store.put(str(i), bytes([i])), range(100)))
        assert list(pool.map(lambda i: store.get(str(i)), range(100))) == [bytes([i]) for i in range(100)]


def test_processes_write_at_the_same_time(tmp_path):
    code = (
        "import sys; from rag_utils.store import Store; store = Store(sys.argv[1])\n"
        "for i in range(200): store.put(f'{sys.argv[2]} {i}', b'x'); store.put('shared', b'y')"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s.sqlite"), name]) for name in "abc"]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert len(Store(tmp_path / "s.sqlite")) == 601


def test_a_damaged_file_is_named_with_the_remedy(tmp_path):
    path = tmp_path / "broken.sqlite"
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(StoreError, match=r"broken\.sqlite.*delete it"):
        Store(path)


def test_a_file_damaged_in_the_middle_is_named_too(tmp_path):
    path = tmp_path / "broken.sqlite"
    store = Store(path)
    store.put_many({str(i): b"x" * 1000 for i in range(200)})
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._connection.close()
    data = bytearray(path.read_bytes())
    data[4096:-4096] = b"\xee" * (len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"broken\.sqlite.*delete it"):
        Store(path).get_many(str(i) for i in range(200))


def test_digest_is_sha256_of_lengths_and_parts():
    expected = hashlib.sha256(b"\x02" + b"\0" * 7 + b"ab" + b"\x01" + b"\0" * 7 + b"c").hexdigest()
    assert digest("ab", "c") == expected
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4
    assert digest("\ud800") != digest("?")  # text that UTF-8 cannot hold still has a key
