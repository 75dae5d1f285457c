"""The second reader: trunks with small trained changes, asked about texts that the first readers left open."""

from lazaretto.models.deep.base import TRUNKS, Trunk, find_changes, find_trunk, is_set_up, read_trunk, set_up
from lazaretto.models.deep.reader import SMALL, DeepReader, SecondReading, measured_bar, reader_for, shared_reader

__all__ = [
    "SMALL",
    "TRUNKS",
    "DeepReader",
    "SecondReading",
    "Trunk",
    "find_changes",
    "find_trunk",
    "is_set_up",
    "measured_bar",
    "read_trunk",
    "reader_for",
    "set_up",
    "shared_reader",
]
