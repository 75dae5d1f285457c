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
    table = PAGE.split("## Questions")[1].split("\n## ")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| ") and "question" not in row]
    assert len(rows) == 22
    for question, answer in rows:
        named = re.findall(r"`([\w/]+\.py)`", answer)
        assert named, question
        for file in named:
            assert (REPOSITORY / "src" / "lazaretto" / file).is_file(), (question, file)


def test_one_memory_crosses_few_files_on_its_way():
    tool = REPOSITORY / "tools" / "files_crossed.py"
    printed = subprocess.run([sys.executable, tool], capture_output=True, text=True, timeout=300, check=True).stdout
    counted = [
        int(count) for count in re.findall(r"(?:the way|inside the gates|inside the store): (\d+) files", printed)
    ]
    assert len(counted) == 3, printed
    assert 10 < counted[0] <= MOST_ON_THE_WAY
    pattern = r"through (\d+) files: (\d+) on the way itself .*?(\d+) inside the gates .*?(\d+) inside the store"
    stated = re.search(pattern, PAGE, re.DOTALL)
    assert stated
    assert [int(number) for number in stated.groups()] == [sum(counted), *counted], (
        "say the new counts in ARCHITECTURE.md"
    )
