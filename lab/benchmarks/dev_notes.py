"""Honest notes of the development list (tests/data/dev_work_notes.toml) as what the web and foreign tools say.

    python lab/benchmarks/dev_notes.py           # prints each note that is held, with the rule that holds it

Gates may be mended on this list; it judges nothing. The list that judges is that of `everyday.py notes`.
"""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

from lazaretto import SyncGuard
from lazaretto.types import Ruling

LIST = Path(__file__).resolve().parents[2] / "tests" / "data" / "dev_work_notes.toml"
WAYS = (("untrusted_document", "memory"), ("untrusted_document", "document"), ("tool_output_external", "tool"))


def main() -> None:
    """Every note, each way in a store of its own."""
    notes = [(work, note) for work, table in tomllib.loads(LIST.read_text()).items() for note in table["notes"]]
    for source, channel in WAYS:
        held = 0
        with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
            for work, note in notes:
                if channel == "memory":
                    told = guard.remember(note, agent=work, source=source)
                else:
                    told = guard.check(note, agent=work, channel=channel, source=source)
                if not told.allowed:
                    held += 1
                    print(f"  {told.ruling.label} {told.rule}: {note}")
                    for verdict in told.standing:
                        if verdict.ruling > Ruling.WARN:
                            words = "; ".join(one.summary for one in verdict.evidence)
                            print(f"      {verdict.gate}:{verdict.rule} {verdict.risk:.2f} {words[:300]}")
        print(f"{source} as {channel}: {held} of {len(notes)} held", flush=True)


if __name__ == "__main__":
    main()
