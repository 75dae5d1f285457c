"""A policy file runs no code but what is installed as a part of Lazaretto, or what the operator allows."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from lazaretto.errors import InputError
from lazaretto.learn.calibration import embedder_named
from lazaretto.policy import plugins
from lazaretto.testing import HashingEmbedder


@pytest.mark.parametrize("name", ["os:abort", "subprocess:run", "lazaretto.testing:HashingEmbedder", "builtins:exit"])
def test_a_policy_file_names_no_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plugins.ALLOW, raising=False)
    with pytest.raises(InputError, match="may not name") as error:
        embedder_named(name, by_file=True)
    assert plugins.ALLOW in str(error.value)


def test_the_operator_allows_a_module_by_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.ALLOW, "elsewhere, lazaretto.testing")
    assert isinstance(embedder_named("lazaretto.testing:HashingEmbedder", by_file=True), HashingEmbedder)
    with pytest.raises(InputError, match="may not name"):
        embedder_named("lazaretto.testing.more:HashingEmbedder", by_file=True)
    monkeypatch.setenv(plugins.ALLOW, "")
    with pytest.raises(InputError, match="may not name"):
        embedder_named(":x", by_file=True)


def test_what_is_installed_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("hashing", "lazaretto.testing:HashingEmbedder", plugins.EMBEDDERS.group)
    monkeypatch.setattr(plugins, "installed_points", lambda group: (point,) if group == point.group else ())
    assert isinstance(embedder_named("hashing", by_file=True), HashingEmbedder)
    with pytest.raises(InputError, match="unknown"):
        embedder_named("nothing", by_file=True)


def test_what_is_installed_is_read_once_for_a_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("hashing", "lazaretto.testing:HashingEmbedder", "lazaretto.read-once")
    asked: list[str] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: asked.append(group) or [point])
    table = plugins.PluginTable("embedder", point.group, {})
    assert table.names() == ("hashing",) and table.factory("hashing") is HashingEmbedder and asked == [point.group]
    monkeypatch.syspath_prepend("elsewhere")
    assert table.names() == ("hashing",) and asked == [point.group] * 2, "another path may hold other packages"
