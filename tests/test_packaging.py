"""The wheels, built from this checkout: what they hold, what they weigh, and that the product's runs alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parent.parent
MEGABYTE = 1_000_000


def build(source: Path, work: Path) -> Path:
    """The wheel of one distribution, from a copy: a build leaves folders beside its sources."""
    work.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "Containerfile", "compose.yaml", "constraints.txt"):
        if (source / name).is_file():
            copy(source / name, work / name)
    for name in ("src", "examples", "deploy"):
        if (source / name).is_dir():
            copytree(source / name, work / name, ignore=ignore_patterns("*.egg-info", "__pycache__"))
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--wheel-dir", str(work / "dist"))
    run([sys.executable, "-m", "pip", "wheel", *options, str(work)], cwd=work)
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product's wheel."""
    return build(REPOSITORY, tmp_path_factory.mktemp("product") / "build")


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The laboratory's wheel."""
    return build(REPOSITORY / "lab", tmp_path_factory.mktemp("laboratory") / "build")


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what we trained for the larger models."""
    return build(REPOSITORY / "packages" / "deep", tmp_path_factory.mktemp("deep") / "build")


def files_in(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name and ".data/" not in name}


def files_beside(package: Path) -> set[str]:
    """What a package folder of the checkout holds: all of it belongs into the wheel."""
    return {
        str(file.relative_to(package.parent))
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def requirements(wheel: Path) -> dict[str, Requirement]:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lines = re.findall(r"^Requires-Dist: (.+)$", archive.read(metadata).decode(), re.MULTILINE)
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def test_the_product_wheel_holds_the_product_and_is_small(product: Path) -> None:
    held = files_in(product)
    assert held == files_beside(REPOSITORY / "src" / "lazaretto")
    assert {name.split("/")[0] for name in held} == {"lazaretto"}
    for part in ("screener/screener", "jury/strict", "records/records"):
        assert f"lazaretto/models/weights/{part}.safetensors" in held
    assert product.stat().st_size < 8.8 * MEGABYTE


def test_the_product_wheel_brings_examples_presets_and_what_an_index_shows(product: Path) -> None:
    archive = zipfile.ZipFile(product)
    names = archive.namelist()
    here = {file.name for file in (REPOSITORY / "examples").iterdir() if file.suffix in (".py", ".toml")}
    assert {name.rsplit("/", 1)[1] for name in names if ".data/data/share/lazaretto/examples/" in name} == here
    deploy = {name.rsplit("/", 1)[1] for name in names if ".data/data/share/lazaretto/deploy/" in name}
    assert {"grafana-dashboard.json", "Containerfile", "compose.yaml", "constraints.txt"} <= deploy
    assert {"lazaretto/policy/presets/recommended.toml", "lazaretto/policy/presets/strict.toml"} <= set(names)
    (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert "Classifier: Typing :: Typed" in metadata and "Keywords: " in metadata


def test_the_laboratory_wheel_holds_weights_experiments_and_pictures(laboratory: Path) -> None:
    held = files_in(laboratory)
    assert held == files_beside(REPOSITORY / "lab" / "src" / "lazaretto_lab")
    assert {name.split("/")[0] for name in held} == {"lazaretto_lab"}
    for part in ("pocket/weights/pocket-vlm.safetensors", "studies/foresight/demo.toml", "harness/paper.mplstyle"):
        assert f"lazaretto_lab/{part}" in held
    assert any(name.endswith(".png") for name in held)
    assert laboratory.stat().st_size < 20 * MEGABYTE


def test_the_deep_wheel_holds_numbers_alone(deep: Path) -> None:
    held = files_in(deep)
    assert held == files_beside(REPOSITORY / "packages" / "deep" / "src" / "lazaretto_deep")
    assert {name for name in held if not name.endswith(".safetensors")} == {"lazaretto_deep/__init__.py"}
    assert deep.stat().st_size < 4 * MEGABYTE


@pytest.mark.parametrize("built", ["product", "laboratory", "deep"])
def test_a_wheel_carries_its_licence(built: str, request: pytest.FixtureRequest) -> None:
    names = zipfile.ZipFile(request.getfixturevalue(built)).namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


OWN_ENVIRONMENT = (
    "openai-agents", "mem0ai", "crewai", "google-adk", "agent-framework-core", "llama-index-core", "pydantic-ai-slim",
    "autogen-agentchat",
)  # fmt: skip
"""Frameworks whose pins exclude each other, and those of examples: ``make adapters`` has environments for them."""


def test_users_get_ranges_and_this_repository_gets_pins(product: Path, laboratory: Path, deep: Path) -> None:
    assert not requirements(deep)
    wanted = requirements(product) | requirements(laboratory)
    exact = [str(one) for one in wanted.values() if "==" in str(one.specifier)]
    assert exact == [str(wanted["lazaretto-deep"])], f"an exact version clashes with the user's own: {exact}"
    assert wanted["lazaretto"].extras == {"models", "plot"}
    pinned = dict(line.split("==") for line in (REPOSITORY / "constraints.txt").read_text().splitlines())
    pinned = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    for name, requirement in wanted.items():
        if name not in {"lazaretto", "lazaretto-deep", *OWN_ENVIRONMENT}:
            assert pinned[name.lower().replace("_", "-")] in requirement.specifier, name


@pytest.fixture(scope="module")
def alone(product: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the product's wheel and, linked, the packages that its metadata asks for; nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--target", str(folder))
    run([sys.executable, "-m", "pip", "install", *options, str(product)])
    waiting, seen = [str(one) for one in requirements(product).values()], set()
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        found = distribution(requirement.name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(found.locate_file(top))))
        waiting += found.requires or ()
    return folder


def run_alone(alone: Path, cwd: Path, *arguments: str, also: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (alone, *([also] if also else ()))))
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": path}
    command = [sys.executable, "-S", "-s", *arguments]  # without site-packages
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_the_product_alone_runs_the_ten_lines_of_the_readme(alone: Path, tmp_path: Path) -> None:
    (code, *_) = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = run_alone(alone, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    looked = "Passed: structure, blocklist and protected found nothing to hold it for."
    assert f"allow ('{looked}',) False" in done.stdout, "the core reads no meaning, and says that it is not complete"
    assert "pip install 'lazaretto[gates]'" in done.stderr


def test_the_product_alone_knows_what_it_lacks(alone: Path, tmp_path: Path) -> None:
    found = run_alone(alone, tmp_path, "-m", "lazaretto", "doctor", "--json", "--store", f"sqlite:///{tmp_path}/a.db")
    assert found.returncode == 0, found.stderr
    state = {one["part"]: one["ok"] for one in json.loads(found.stdout)["findings"]}
    assert state["lazaretto"] and not any(ok for part, ok in state.items() if "torch" in part)
    bench = run_alone(alone, tmp_path, "-m", "lazaretto", "bench", "list")
    assert (bench.returncode, bench.stdout) == (5, "")
    assert bench.stderr == "'lazaretto bench' belongs to the laboratory: pip install lazaretto-lab\n"


def test_the_larger_models_need_lazaretto_deep_and_find_it(alone: Path, deep: Path, tmp_path: Path) -> None:
    asked = ("-m", "lazaretto", "deep", "setup", "e5", "--from", str(tmp_path))
    missing = run_alone(alone, tmp_path, *asked)
    assert missing.returncode == 5 and "pip install 'lazaretto[deep]'" in missing.stderr, missing.stderr
    zipfile.ZipFile(deep).extractall(tmp_path / "site")
    code = "from lazaretto.models.deep.base import CHANGES, find_changes; print(*map(find_changes, CHANGES), sep='\\n')"
    found = run_alone(alone, tmp_path, "-c", code, also=tmp_path / "site")
    assert {Path(line).parent for line in found.stdout.split()} == {tmp_path / "site" / "lazaretto_deep"}, found.stderr
    with_it = run_alone(alone, tmp_path, *asked, also=tmp_path / "site")
    assert with_it.returncode == 5 and "e5-small-q4.bin cannot be read" in with_it.stderr.replace("\n", " ")


def test_all_distributions_have_one_version() -> None:
    places = (".", "lab", "packages/deep")
    projects = [tomllib.loads((REPOSITORY / place / "pyproject.toml").read_text())["project"] for place in places]
    assert len({project["version"] for project in projects}) == 1
    extra = projects[0]["optional-dependencies"]["deep"]
    assert f"lazaretto-deep=={projects[0]['version']}" in extra, "pip --upgrade leaves what any version satisfies"
