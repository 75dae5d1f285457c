"""What stands in deploy/ speaks of things that exist: commands, options, variables, metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lazaretto.cli import build

yaml = pytest.importorskip("yaml", reason="needs PyYAML")
DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
MANIFESTS = {path.name: list(yaml.safe_load_all(path.read_text())) for path in (DEPLOY / "kubernetes").glob("*.yaml")}


def containers(kind: str) -> list[dict[str, Any]]:
    found = []
    for one in (doc for docs in MANIFESTS.values() for doc in docs if doc["kind"] == kind):
        spec = one["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else one["spec"]
        found += spec["template"]["spec"]["containers"]
    return found


def check_command(words: list[str]) -> None:
    """Every command and option is one of ours."""
    group = typer.main.get_command(build(words[1]))
    rest = words[1:]
    while rest and rest[0] in getattr(group, "commands", {}):
        group = group.commands[rest.pop(0)]  # type: ignore[attr-defined]
    options = {name for one in group.params for name in one.opts}
    assert words[0].endswith("lazaretto") and not getattr(group, "commands", {})
    assert {word for word in rest if word.startswith("--")} <= options, words


def test_manifests_start_what_exists_and_hold_no_secret() -> None:
    (service,) = containers("Deployment")
    check_command(service["args"])
    (backup,) = containers("CronJob")
    check_command(backup["command"][2].removeprefix("exec ").split())
    for one in (service, backup):
        assert (
            one["securityContext"]["readOnlyRootFilesystem"] and not one["securityContext"]["allowPrivilegeEscalation"]
        )
        given = {env["name"]: env for env in one["env"]}
        assert "value" not in given["POSTGRES_PASSWORD"], "a password is a secret's"
        assert "$(POSTGRES_PASSWORD)" in given["LAZARETTO_STORE"]["value"]
        source = "".join(path.read_text() for path in (DEPLOY.parent / "src" / "lazaretto").rglob("*.py"))
        for name in given:
            assert not name.startswith("LAZARETTO_") or name in source, name
    kinds = sorted(doc["kind"] for docs in MANIFESTS.values() for doc in docs)
    assert kinds.count("NetworkPolicy") == 2 and "Secret" not in kinds


def test_mounts_have_volumes_and_labels_meet() -> None:
    for doc in (doc for docs in MANIFESTS.values() for doc in docs if doc["kind"] in ("Deployment", "StatefulSet")):
        spec = doc["spec"]["template"]["spec"]
        volumes = {one["name"] for one in spec.get("volumes", ())}
        volumes |= {one["metadata"]["name"] for one in doc["spec"].get("volumeClaimTemplates", ())}
        mounts = {mount["name"] for one in spec["containers"] for mount in one["volumeMounts"]}
        assert mounts <= volumes
        assert doc["spec"]["selector"]["matchLabels"].items() <= doc["spec"]["template"]["metadata"]["labels"].items()


def test_alerts_are_about_metrics_that_exist() -> None:
    pytest.importorskip("prometheus_client", reason="needs the api extra")
    metrics = (DEPLOY.parent / "src" / "lazaretto" / "api" / "metrics.py").read_text()
    rules = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"lazaretto_\w+", rule["expr"])}
    assert len(named) >= 5
    for name in named:
        assert f'"{name.removesuffix("_total").removesuffix("_bucket")}"' in metrics, name
    assert all(rule["annotations"]["description"] for rule in rules)


def test_the_unit_starts_what_exists_and_is_sound(tmp_path: Path) -> None:
    unit = (DEPLOY / "lazaretto.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert start
    check_command(start.group(1).split())
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    copy = tmp_path / "lazaretto.service"
    copy.write_text(unit.replace("/opt/lazaretto/bin/lazaretto", shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "lazaretto.service" in line]
    assert not ours, ours
