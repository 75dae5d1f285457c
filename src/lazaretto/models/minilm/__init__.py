"""all-MiniLM-L6-v2, the small text encoder that the embedded models stand on: one runtime for all readers.

``base`` finds and verifies the file. ``encoder`` reads it and adds adapters, cuts texts into windows, runs the network
(onnxruntime) and makes unit vectors. All encoders of a process share the tokenizer and the table of words.
"""

from lazaretto.models.minilm.base import minilm_folder
from lazaretto.models.minilm.encoder import (
    DIMENSION,
    FIRST_WINDOW,
    WINDOW_TOKENS,
    Adapter,
    Encoder,
    MiniLM,
    Pieces,
    Tokens,
    claim_minilm,
    minilm_tokenizer,
    pieces_of,
    shared_minilm,
    split_heads,
    window_texts,
)

__all__ = [
    "DIMENSION",
    "FIRST_WINDOW",
    "WINDOW_TOKENS",
    "Adapter",
    "Encoder",
    "MiniLM",
    "Pieces",
    "Tokens",
    "claim_minilm",
    "minilm_folder",
    "minilm_tokenizer",
    "pieces_of",
    "shared_minilm",
    "split_heads",
    "window_texts",
]
