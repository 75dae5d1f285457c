"""One writer of a write storm: appends for as long as it lives, and writes down what was acknowledged.

Run by test_crash.py as a process of its own: ``python storm.py URL ACKFILE NAME``.
"""

from __future__ import annotations

import os
import sys

from lazaretto.errors import StoreUnavailable
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation


def main(url: str, acknowledged: str, name: str) -> None:
    """Write batches of three; a batch's number and hash go to the file only after ``append`` has returned."""
    handle = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ledger = Ledger.open(url)
    os.write(handle, b"ready\n")
    last: tuple[str, ...] = ()
    while True:
        item = Observation(name, Channel.MEMORY, f"a note of {name}", parents=last)
        drafts = [
            seen_draft(item),
            Draft(EventKind.RULED, item.id, "", {"ruling": "warn"}),
            Draft(EventKind.RETRIEVED, item.id, name),
        ]
        while True:
            try:
                events = ledger.append(drafts)
                break
            except StoreUnavailable:
                continue  # the server was killed: the same drafts again, which records them once
        os.write(handle, "".join(f"{event.seq} {event.hash}\n" for event in events).encode())
        last = (item.id,)


if __name__ == "__main__":
    main(*sys.argv[1:4])
