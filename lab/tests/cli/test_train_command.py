"""Every set of shipped weights can be made from the command line, and its script explains itself."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lazaretto.cli import build
from lazaretto_lab.cli.train import SCRIPTS


@pytest.mark.parametrize("weights", ["jury", "screener", "pocket"])
def test_what_follows_the_name_goes_to_the_script(weights: str) -> None:
    shown = CliRunner().invoke(build(), ["train", weights, "--help"])
    assert shown.exit_code == 0, shown.output
    assert f"lazaretto train {weights}" in shown.output


def test_unknown_weights_are_refused_with_the_names_there_are() -> None:
    refused = CliRunner().invoke(build(), ["train", "nothing"])
    assert refused.exit_code == 2
    assert all(name in refused.stderr for name in SCRIPTS)
