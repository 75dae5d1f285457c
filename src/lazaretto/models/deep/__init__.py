"""The second reader: larger trunks with small trained changes, asked about texts that the first readers left open."""

from lazaretto.models.deep.base import Trunk, find_trunk, set_up
from lazaretto.models.deep.reader import DeepReader, Reading, shared_reader

__all__ = ["DeepReader", "Reading", "Trunk", "find_trunk", "set_up", "shared_reader"]
