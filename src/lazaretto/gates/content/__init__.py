"""The content gate: moderation by debate, with reasons, precedents and appeals.

Read in this order: ``records`` (what passes between the roles), ``panel`` (what a role is), ``arbitration`` (how a
verdict is reached), ``debate`` (who speaks when), ``gate`` (how the guard asks).
"""
