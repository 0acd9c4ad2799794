"""The cubin cache: keys, damage, concurrency, folders that cannot be written."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest

from croq.driver import bindings
from croq.driver import cache as cache_module
from croq.driver.cache import CubinCache, cache_key, compile_cached
from croq.driver.nvrtc import Compiled

KERNEL = 'extern "C" __global__ void k(float* p) { p[0] = 1; }'
ENTRY = Compiled(b"\x7fELF cubin", "ptxas info    : Compile time = 1 ms")


@pytest.fixture
def store(tmp_path: Path) -> CubinCache:
    return CubinCache(tmp_path / "cache")


def place(store: CubinCache) -> Path:
    assert store.store.place is not None
    return store.store.place


def entry(store: CubinCache, key: str = "key") -> Path:
    path = store.store.path(key)
    assert path is not None
    return path


def test_an_entry_comes_back_whole(store: CubinCache) -> None:
    assert store.get("key") is None
    assert store.put("key", ENTRY)
    found = store.get("key")
    assert found is not None
    assert (found.cubin, found.log, found.ptx) == (ENTRY.cubin, ENTRY.log, None)
    assert [p.name for p in place(store).iterdir()] == ["key.croqbin"]  # no temporary file stays


@pytest.mark.parametrize("damage", [b"", b"\n", b"other", sha256(b"").digest(), sha256(b"{}\n").digest() + b"{}\n"])
def test_a_replaced_file_is_no_entry(store: CubinCache, damage: bytes) -> None:
    store.put("key", ENTRY)
    entry(store).write_bytes(damage)
    assert store.get("key") is None


@pytest.mark.parametrize("place", [0, 20, 50, -1])
def test_one_flipped_bit_is_noticed(store: CubinCache, place: int) -> None:
    store.put("key", ENTRY)
    data = bytearray(entry(store).read_bytes())
    data[place] ^= 1
    entry(store).write_bytes(data)
    assert store.get("key") is None


def test_a_truncated_entry_is_noticed(store: CubinCache) -> None:
    store.put("key", ENTRY)
    entry(store).write_bytes(entry(store).read_bytes()[:-3])
    assert store.get("key") is None


def test_a_folder_that_cannot_be_made_is_passed_over(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert not CubinCache(blocked / "cache").put("key", ENTRY)
    assert CubinCache(blocked / "cache").get("key") is None


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    store = CubinCache(tmp_path, size_limit=10_000)
    for i in range(5):
        store.put(f"key{i}", Compiled(bytes(3000), ""))
        os.utime(entry(store, f"key{i}"), (i, i))
    store.put("new", Compiled(bytes(3000), ""))
    assert store.get("new") is not None
    assert store.get("key0") is None
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 10_000


@pytest.mark.nvrtc
def test_everything_that_shapes_the_cubin_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        cache_key(KERNEL),
        cache_key(KERNEL + " "),
        cache_key(KERNEL, arch="sm_100a"),
        cache_key(KERNEL, options=["-DX=1"]),
        cache_key(KERNEL, headers={"croq.cuh": "other"}),
        cache_key(KERNEL, lineinfo=True),
        cache_key(KERNEL, name="other.cu"),
    ]
    monkeypatch.setattr(cache_module, "nvrtc_release", lambda: "99.0")
    keys.append(cache_key(KERNEL))
    monkeypatch.setattr(cache_module, "_croq_version", lambda: "99.0")
    keys.append(cache_key(KERNEL))
    assert len(set(keys)) == len(keys)


@pytest.mark.nvrtc
def test_the_second_compilation_does_not_compile(store: CubinCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_cached(KERNEL, cache=store)
    monkeypatch.setattr(cache_module, "compile_cuda", lambda *a, **k: pytest.fail("compiled again"))
    second = compile_cached(KERNEL, cache=store)
    assert (second.cubin, second.log, second.usage) == (first.cubin, first.log, first.usage)
    assert first.seconds > 0
    assert second.seconds == 0


@pytest.mark.nvrtc
def test_a_remembered_cubin_is_found_without_the_compiler(tmp_path: Path) -> None:
    text = f"""
import sys
from croq.driver.cache import CubinCache, compile_cached
from pathlib import Path
compile_cached({KERNEL!r}, cache=CubinCache(Path({str(tmp_path)!r})))
print("cuda.bindings.nvrtc" in sys.modules)
"""
    runs = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True) for _ in range(2)]
    assert [(run.stdout.strip(), run.stderr) for run in runs] == [("True", ""), ("False", "")]


@pytest.mark.nvrtc
def test_the_compiler_is_asked_where_it_is_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    bindings.nvrtc_release.cache_clear()
    assert bindings.nvrtc_release() == ".".join(map(str, bindings.nvrtc_version()))
    bindings.nvrtc_release.cache_clear()


@pytest.mark.nvrtc
def test_a_damaged_entry_is_rebuilt(store: CubinCache) -> None:
    first = compile_cached(KERNEL, cache=store)
    (path,) = place(store).iterdir()
    path.write_bytes(b"damaged")
    assert compile_cached(KERNEL, cache=store).cubin == first.cubin
    assert path.read_bytes() != b"damaged"


def _hammer(folder: Path, worker: int) -> int:
    """Writes and reads one key over and over; returns how many reads saw something wrong."""
    store = CubinCache(folder)
    wrong = 0
    for i in range(30):
        store.put("shared", Compiled(bytes([worker]) * 20_000, str(worker)))
        found = store.get("shared")
        whole = found is not None and found.cubin == bytes([int(found.log)]) * 20_000
        wrong += not whole
        if i % 10 == worker:
            entry(store, "shared").write_bytes(b"damaged by another program")
            store.put("shared", Compiled(bytes([worker]) * 20_000, str(worker)))
    return wrong


def test_many_processes_share_a_folder(tmp_path: Path) -> None:
    store = CubinCache(tmp_path)
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        pool.starmap(_hammer, [(tmp_path, worker) for worker in range(4)])
    found = store.get("shared")
    assert found is not None
    assert found.cubin == bytes([int(found.log)]) * 20_000
    assert [p.name for p in tmp_path.iterdir()] == ["shared.croqbin"]


def test_readers_see_whole_entries_only(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        assert sum(pool.starmap(_hammer, [(tmp_path, worker + 10) for worker in range(4)])) == 0
