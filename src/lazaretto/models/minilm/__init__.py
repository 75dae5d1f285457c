"""all-MiniLM-L6-v2, the small text encoder that the embedded models stand on: one runtime for all readers.

``base`` finds and verifies the file, ``weights`` reads it and adds adapters, ``tokens`` cuts texts into windows,
``encoder`` runs the network by ``session`` (onnxruntime) and makes unit vectors. All encoders of a process share the
tokenizer and the table of words.
"""

from lazaretto.models.minilm.base import minilm_folder
from lazaretto.models.minilm.encoder import Encoder, MiniLM, claim_minilm, shared_minilm
from lazaretto.models.minilm.tokens import (
    FIRST_WINDOW,
    WINDOW_TOKENS,
    Pieces,
    Tokens,
    minilm_tokenizer,
    pieces_of,
    window_texts,
)
from lazaretto.models.minilm.weights import DIMENSION, Adapter, split_heads

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
