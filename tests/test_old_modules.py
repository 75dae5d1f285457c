"""Modules that the documentation named can be imported from their old places, with a warning."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from lazaretto.old_modules import MOVED

NAMES = {
    "lazaretto.agents.persona": "persona_pool",
    "lazaretto.gates.content.report": "markdown",
    "lazaretto.gates.content.settings": "content_settings",
    "lazaretto.learn.folder_calibration": "calibrate_folder",
    "lazaretto.models.embedding_cache": "EmbeddingCache",
    "lazaretto.models.local_chat": "LocalChat",
    "lazaretto.provenance.drawing.export": "to_svg",
    "lazaretto.repair.bisection": "bisect",
    "lazaretto.repair.isolate": "Isolate",
}


def test_every_old_place_is_tried() -> None:
    assert NAMES.keys() == MOVED.keys()


@pytest.mark.parametrize("old", NAMES)
def test_an_old_place_gives_the_same_object_and_names_the_new_place(old: str) -> None:
    pytest.importorskip("numpy", reason="needs the gates extra")
    module = importlib.import_module(old)
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        found = getattr(module, NAMES[old])
    assert found is getattr(importlib.import_module(MOVED[old]), NAMES[old])


def test_other_names_are_not_found() -> None:
    assert importlib.util.find_spec("lazaretto.repair.nothing") is None
    with pytest.raises(AttributeError):
        _ = importlib.import_module("lazaretto.repair.isolate").nothing
