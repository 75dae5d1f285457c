"""The ledger: the append-only record of the items and actions of agents. A changed or missing event is detected."""

from lazaretto.ledger.checkpoints import Checkpoint, ConsistencyProof, PublicKey, SigningKey
from lazaretto.ledger.drafts import observation_of, seen_draft
from lazaretto.ledger.effects import ItemState, changes_of, with_change
from lazaretto.ledger.ledger import Ledger
from lazaretto.ledger.rebuild import Rebuilt
from lazaretto.ledger.refs import Fingerprint
from lazaretto.ledger.store import Store
from lazaretto.ledger.verify import Verification

__all__ = [
    "Checkpoint",
    "ConsistencyProof",
    "Fingerprint",
    "ItemState",
    "Ledger",
    "PublicKey",
    "Rebuilt",
    "SigningKey",
    "Store",
    "Verification",
    "changes_of",
    "observation_of",
    "seen_draft",
    "with_change",
]
