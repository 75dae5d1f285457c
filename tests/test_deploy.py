"""What stands in deploy/ speaks of things that exist: commands, options, variables, metrics."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_manifests_are_what_kubernetes_takes(version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate").validate
    every = [doc for docs in MANIFESTS.values() for doc in docs]
    assert len(every) >= 9
    for doc in every:
        validate(doc, version, strict=True)  # strict: a field that Kubernetes does not know is an error
    wrong = copy.deepcopy(next(doc for doc in every if doc["kind"] == "Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(Exception, match="readinesProbe"):
        validate(wrong, version, strict=True)


def test_what_the_deployment_benchmark_runs_is_what_the_manifests_say() -> None:
    pytest.importorskip("lazaretto_lab", reason="needs the laboratory")
    path = DEPLOY.parent / "lab" / "benchmarks" / "deployment.py"
    spec = importlib.util.spec_from_file_location("deployment_benchmark", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for kind, manifest in module.manifests().items():
        service = module.Service(manifest, {}, DEPLOY)
        words = service.words(4711)[3:]
        said = list(manifest.command[1:])
        assert [one for one in words if one not in said] == (["--port", "4711"] if kind == "compose" else ["4711"])
        check_command(list(manifest.command))
    stored = json.loads((DEPLOY.parent / "lab" / "results" / "deployment" / "runs.json").read_text())
    assert {run["kind"] for run in stored["runs"]} == set(module.manifests())
    for run in stored["runs"]:
        assert run["command"] == " ".join(module.manifests()[run["kind"]].command), "the manifest changed: run it again"
        assert run["nothing_lost"] and run["acknowledged"] > 50


def test_mounts_have_volumes_and_labels_meet() -> None:
    found = [doc for docs in MANIFESTS.values() for doc in docs if doc["kind"] in ("Deployment", "StatefulSet")]
    assert found
    for doc in found:
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
