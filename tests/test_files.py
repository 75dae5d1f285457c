"""A file is written whole or not at all, whatever fails and whoever reads meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lazaretto.files import replacing, write_file


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("data", [b"\x00raw", "naïve\n"])
def test_it_takes_the_place_of_what_was_there(tmp_path: Path, data: bytes | str, durable: bool) -> None:
    path = tmp_path / "x.json"
    path.write_text("old and longer than the new one")
    write_file(path, data, durable=durable)
    assert path.read_bytes() == (data if isinstance(data, bytes) else data.encode())
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_taken_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "folder", b"1", durable=True)
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere" / "x", b"1")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    code = (
        "import os, pathlib, sys\nfrom lazaretto.files import replacing\n"
        "with replacing(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert path.read_text() == "old"


def test_readers_and_other_writers_never_see_a_part(tmp_path: Path) -> None:
    path, seen = tmp_path / "x", set[bytes]()
    contents = [bytes([65 + n]) * 200_000 for n in range(4)]
    write_file(path, contents[0])
    writers = [
        threading.Thread(target=lambda data=data: [write_file(path, data) for _ in range(30)]) for data in contents
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_an_ordinary_file_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    write_file(tmp_path / "ours", b"")
    with replacing(tmp_path / "private", mode=0o600):
        pass
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["ours"] == modes["ordinary"] and modes["private"] == 0o600


def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from lazaretto.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out.jsonl")], check=False)
    assert killed.returncode == -9
    assert list(tmp_path.iterdir()) == []
