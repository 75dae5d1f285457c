"""The ledger: what agents read, kept and said, in an order that nobody can change without being found out."""

from lazaretto.ledger.checkpoints import Checkpoint, ConsistencyProof
from lazaretto.ledger.drafts import seen_draft
from lazaretto.ledger.fingerprints import Fingerprint
from lazaretto.ledger.item_state import ItemState
from lazaretto.ledger.ledger import Ledger
from lazaretto.ledger.signing import PublicKey, SigningKey
from lazaretto.ledger.store import Store
from lazaretto.ledger.verify import Verification

__all__ = [
    "Checkpoint",
    "ConsistencyProof",
    "Fingerprint",
    "ItemState",
    "Ledger",
    "PublicKey",
    "SigningKey",
    "Store",
    "Verification",
    "seen_draft",
]
