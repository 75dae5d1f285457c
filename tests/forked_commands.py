"""Runs ``lazaretto`` commands and Python programs (files, not ``-c``) in copies of one process that has loaded all.

A start of Python loads for three seconds, and the pages of the documentation start it a hundred times. A copy of the
process has the caller's folder, environment, arguments and standard streams, and ends with the command's exit code.
``python tests/forked_commands.py SOCKET`` is the process; ``folder_of_commands`` writes the programs that ask it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

NOT_FORKED = ("serve", "proxy", "mcp")
"""Commands that run until a signal ends them: they are started as ever."""
LIBRARIES = (
    "lazaretto_lab.cli.bench", "lazaretto_lab.cli.epidemic", "onnxruntime", "tokenizers", "matplotlib.pyplot",
    "langchain.chat_models", "langgraph.graph", "langgraph.store.memory", "langgraph.checkpoint.memory",
)  # fmt: skip
CLIENT = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
if {kind!r} == "lazaretto" and words[:1] and words[0] in {not_forked!r}:
    os.execv({real!r}, [{real!r}, *words])
if {kind!r} == "python" and not (words and words[0].endswith(".py")):
    os.execv({python!r}, [{python!r}, *words])
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({socket!r})
    told = json.dumps([{kind!r}, words, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(asked, [len(told).to_bytes(4, "big")], [0, 1, 2])
    asked.sendall(told)
    answer = asked.recv(4)
sys.exit(int.from_bytes(answer, "big") if answer else 70)
"""


def folder_of_commands(folder: Path, address: Path) -> Path:
    """Write ``lazaretto``, ``python`` and ``run-python`` (a text), which ask the process at a socket; the folder goes
    first in ``PATH``."""
    folder.mkdir(exist_ok=True)
    real = str(Path(sys.executable).parent / "lazaretto")
    for kind in ("lazaretto", "python", "run-python"):
        client = folder / kind
        words = {"python": sys.executable, "kind": kind, "not_forked": NOT_FORKED, "real": real, "socket": str(address)}
        client.write_text(CLIENT.format(**words))
        client.chmod(0o755)
    return folder


def load_everything() -> None:
    """What commands import, and the weights of the default policy; no thread may be left, a copy would lack it."""
    import lazaretto

    for module in pkgutil.walk_packages(lazaretto.__path__, "lazaretto."):
        if ".adapters." not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LIBRARIES:
        if importlib.util.find_spec(name.split(".")[0]):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder, lazaretto.SyncGuard.open(f"sqlite:///{folder}/warm.db") as guard:
        guard.remember("The berth is number nine.", agent="ada")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)  # it may still be on its way out
    assert threading.active_count() == 1, threading.enumerate()


def become(kind: str, words: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Do in this process what the asked program would do."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["__main__"] = program = ModuleType("__main__")
    code, name = "from lazaretto.cli import main; main()", "<string>"
    if kind == "run-python":
        sys.path.insert(0, "")
        code, *words = words
    if kind == "python":
        kind, *words = words
        code, name = Path(kind).read_text(), kind
        sys.path.insert(0, str(Path(kind).resolve().parent))
        program.__file__ = kind
    sys.argv = [kind, *words]
    exec(compile(code, name, "exec", dont_inherit=True), program.__dict__)


def ended(program: Callable[[], None]) -> int:
    """Run a program to its end, with all that is due then; its exit code. Python's own tidying takes a second more."""
    try:
        program()
        code: object = 0
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    return code if isinstance(code, int) else int(code is not None)


def answer(connection: socket.socket) -> None:
    """Run what one connection asks for in a copy of the process, and tell its exit code."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    told = b""
    while len(told) < int.from_bytes(head, "big"):
        told += connection.recv(1 << 16)
    kind, words, folder, environment = json.loads(told)
    if not (child := os.fork()):
        connection.close()
        os._exit(ended(lambda: become(kind, words, folder, environment, streams)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))


def serve(address: str) -> None:
    """Answer one program after another, each in a copy of its own, until a signal ends this process."""
    load_everything()
    gc.freeze()  # a copy shares what nobody touches
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if not (child := os.fork()):
                listener.close()
                if os.fork():
                    os._exit(0)
                answer(connection)
                os._exit(0)
            connection.close()
            os.waitpid(child, 0)


if __name__ == "__main__":
    serve(sys.argv[1])
