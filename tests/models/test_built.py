"""Arrays that are kept on disk: used when they are whole and ours, made again when they are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lazaretto.models import built as module
from lazaretto.models.built import built, digest_of, source_of

ARRAYS = {
    "whole": np.arange(6, dtype=np.int8).reshape(2, 3),
    "scale": np.array([0.5, 0.25], np.float32),
    "none": np.empty((0, 4), np.float16),
}


class Making:
    """Counts how often the arrays were made."""

    def __init__(self, arrays=ARRAYS):
        self.times, self._arrays = 0, arrays

    def __call__(self):
        self.times += 1
        return self._arrays


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "kept"))
    return tmp_path / "kept"


def same(arrays):
    return arrays.keys() == ARRAYS.keys() and all(
        np.array_equal(arrays[n], v) and arrays[n].dtype == v.dtype for n, v in ARRAYS.items()
    )


def test_arrays_are_made_once_and_read_back_as_they_were(folder):
    make = Making()
    assert all(same(built("toy", ("weights",), make)) for _ in range(3)) and make.times == 1
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o777 == 0o600


def test_whatever_they_are_made_from_counts(folder):
    make = Making()
    changed = dict(ARRAYS, scale=ARRAYS["scale"] * 2)
    for parts in (
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (digest_of(ARRAYS),),
        (digest_of(changed),),
        (source_of(__file__),),
    ):
        built("toy", parts, make)
    built("other", ("abc",), make)
    assert make.times == 7 and len(list(folder.iterdir())) == 7


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
        lambda data: bytes([data[0] ^ 1]) + data[1:],
    ],
    ids=["empty", "half", "one byte short", "one too many", "a number", "the header"],
)
def test_a_damaged_file_is_made_again(folder, harm):
    make = Making()
    built("toy", ("weights",), make)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert same(built("toy", ("weights",), make)) and make.times == 2
    assert file.read_bytes() == whole


def test_a_file_that_was_made_from_something_else_is_not_taken_for_this(folder):
    built("toy", ("old weights",), Making({"whole": np.zeros(3)}))
    (old,) = folder.iterdir()
    built("toy", ("new weights",), Making())
    (new,) = set(folder.iterdir()) - {old}
    new.write_bytes(old.read_bytes())
    make = Making()
    assert same(built("toy", ("new weights",), make)) and make.times == 1


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode, caplog):
    folder.mkdir()
    folder.chmod(mode)
    make = Making()
    assert same(built("toy", ("weights",), make)) and same(built("toy", ("weights",), make))
    assert make.times == 2 and not list(folder.iterdir()) and "others may write to it" in caplog.text


def test_what_others_may_write_or_own_or_link_to_is_not_read(folder, monkeypatch, tmp_path):
    make = Making()
    built("toy", ("weights",), make)
    (file,) = folder.iterdir()
    file.chmod(0o620)
    built("toy", ("weights",), make)
    assert make.times == 2 and file.stat().st_mode & 0o777 == 0o600, "it was replaced by one that is ours alone"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    built("toy", ("weights",), make)
    assert make.times == 3 and not file.is_symlink()
    user = os.geteuid()
    monkeypatch.setattr(module.os, "geteuid", lambda: user + 1)
    built("toy", ("weights",), make)
    assert make.times == 4, "the folder belongs to another user"


def test_it_can_be_switched_off_and_works_where_nothing_can_be_written(tmp_path, monkeypatch):
    make = Making()
    monkeypatch.setenv(module.FOLDER, "0")
    assert same(built("toy", (), make)) and same(built("toy", (), make)) and make.times == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "file" / "models"))
    assert same(built("toy", (), make)) and make.times == 3
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "full"))
    monkeypatch.setattr(module, "replacing", _full_disk)
    assert same(built("toy", (), make)) and make.times == 4


def _full_disk(*given, **named):
    raise OSError(28, "No space left on device")


def test_what_nobody_used_for_long_is_deleted(folder):
    built("toy", ("old",), Making())
    (old,) = folder.iterdir()
    os.utime(old, (0, 0))
    built("toy", ("new",), Making())
    assert not old.exists() and len(list(folder.iterdir())) == 1


def test_several_processes_at_once_all_get_whole_arrays(folder):
    code = (
        "import numpy as np; from lazaretto.models.built import built\n"
        "made = built('toy', ('weights',), lambda: {'a': np.arange(200_000)})\n"
        "print(int(made['a'].sum()))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)]
    assert {int(process.communicate(timeout=60)[0]) for process in running} == {199_999 * 100_000}
    assert len(list(folder.iterdir())) == 1


def test_models_read_the_same_from_disk(folder, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("py3langid")
    from lazaretto.gates import secrets
    from lazaretto.models import language
    from lazaretto.models.minilm import Encoder

    window = [101, 2054, 2003, 2023, 102]
    text = "Der Hafen öffnet um sechs, und am Sonntag öffnet er erst um acht Uhr."
    adapter = {"embeddings.LayerNorm.bias.delta": np.full(384, 0.01, np.float32)}

    def read():
        for one in (language._identifier, language._load_identifier, secrets._library, secrets._formats):
            one.cache_clear()
        states = [Encoder(adapter, **how).token_states([window])[0] for how in ({"int8": True}, {"even": True})]
        return states, language._identifier().rank(text), secrets._formats(), secrets._library()

    made, again = read(), read()
    assert {file.name.rpartition("-")[0] for file in folder.iterdir()} == {"minilm", "languages", "secret-formats"}
    monkeypatch.setenv(module.FOLDER, "0")
    for other in (again, read()):
        assert all(np.array_equal(a, b) for a, b in zip(made[0], other[0], strict=True)) and made[1:] == other[1:]


def test_the_folder_is_the_users_own_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv(module.FOLDER)
    monkeypatch.setattr(module.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    built("toy", (), Making())
    assert [file.parent for file in tmp_path.rglob("*.arrays")] == [Path(tmp_path, "lazaretto", "models")]
