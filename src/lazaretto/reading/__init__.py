"""One reading of a text: a window of tokens passes through one trunk once, and every gate reads its heads off it.

``windows`` cuts a text into windows, the same for every gate; ``trunk`` is all-MiniLM-L6-v2 with our small changes and
its heads: orders per token, risk as both debaters see it, hazards, benign contexts, and a vector of meaning; ``passes``
makes one pass per window, whoever asks and in whatever thread, and keeps it within a limit in bytes until something is
erased; ``embedder`` makes vectors of whole texts from the same passes.
"""

from lazaretto.reading.embedder import ReadingEmbedder, reading_embedder
from lazaretto.reading.passes import OneReading, shared_reading
from lazaretto.reading.trunk import WEIGHTS, Trunk, WindowReading
from lazaretto.reading.windows import BODY, STRIDE, WINDOW, starts, text_windows

__all__ = [
    "BODY",
    "STRIDE",
    "WEIGHTS",
    "WINDOW",
    "OneReading",
    "ReadingEmbedder",
    "Trunk",
    "WindowReading",
    "reading_embedder",
    "shared_reading",
    "starts",
    "text_windows",
]
