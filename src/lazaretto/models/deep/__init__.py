"""The second reader: trunks with small trained changes, asked about texts that the first readers left open."""

from lazaretto.models.deep.base import TRUNKS, Trunk, find_changes, find_trunk, is_set_up, set_up
from lazaretto.models.deep.reader import DeepReader, SecondReading, measured_bar, reader_for, shared_reader

__all__ = [
    "TRUNKS",
    "DeepReader",
    "SecondReading",
    "Trunk",
    "find_changes",
    "find_trunk",
    "is_set_up",
    "measured_bar",
    "reader_for",
    "set_up",
    "shared_reader",
]
