"""Writes the list of sha256 that shipped weights are checked against. Run it after replacing any of them.

python tools/weight_digests.py
"""

from __future__ import annotations

import json

from lazaretto.models.weight_files import MANIFEST, SHIPPED, digests

if __name__ == "__main__":
    (SHIPPED / MANIFEST).write_text(json.dumps(digests(SHIPPED), indent=1) + "\n", encoding="utf-8")
