"""The tables in their newest shape. ``migrations.py`` builds them; a test compares the two."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

migrations_table = sa.Table(
    "lz_steps",
    metadata,
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
)
heads = sa.Table(
    "lz_heads",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False, unique=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
)
events = sa.Table(
    "lz_events",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("prev", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("salt", sa.LargeBinary),
    sa.Column("body", sa.LargeBinary),
)
items = sa.Table(
    "lz_items",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("image", sa.Text),
    sa.Column("hidden", sa.SmallInteger, nullable=False),
    sa.Column("erased", sa.SmallInteger, nullable=False),
    sa.Column("superseded_by", sa.Text),
    sa.Column("ruling", sa.SmallInteger),
)
edges = sa.Table(
    "lz_edges",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)
blobs = sa.Table(
    "lz_blobs",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
blob_refs = sa.Table(
    "lz_blob_refs",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, primary_key=True),
)
known = sa.Table(
    "lz_known",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("item", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
)
claims = sa.Table(
    "lz_claims",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("start", sa.Integer, nullable=False),
    sa.Column("stop", sa.Integer, nullable=False),
    sa.Column("cell", sa.SmallInteger, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
refs = sa.Table(
    "lz_refs",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ref", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("told", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("system", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
)
signatures = sa.Table(
    "lz_signatures",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("prev", sa.BigInteger, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
)
tree = sa.Table(
    "lz_tree",
    metadata,
    sa.Column("tenant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("place", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
)
