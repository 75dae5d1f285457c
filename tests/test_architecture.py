"""What ARCHITECTURE.md says of the code is so: the files it names, and how many files one item crosses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST_ON_THE_WAY = 30


def test_each_question_names_a_file_that_exists():
    table = PAGE.split("## Fifteen questions")[1].split("\n## ")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| ") and "question" not in row]
    assert len(rows) == 15
    for question, answer in rows:
        named = re.findall(r"`([\w/]+\.py)`", answer)
        assert named, question
        for file in named:
            assert (REPOSITORY / "src" / "lazaretto" / file).is_file(), (question, file)


def test_one_memory_crosses_few_files_on_its_way():
    tool = REPOSITORY / "tools" / "files_crossed.py"
    said = subprocess.run([sys.executable, tool], capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r"the way: (\d+) files", said)
    assert found, said
    assert 10 < int(found[1]) <= MOST_ON_THE_WAY
    stated = re.search(r"runs through (\d+) files: (\d+) on the way", PAGE)
    assert stated
    assert int(stated[2]) == int(found[1]), "say the new count in ARCHITECTURE.md"
