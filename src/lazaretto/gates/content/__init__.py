"""The content gate: moderation by debate, with reasons, precedents and appeals.

Read in this order: ``records`` (what passes between the seats), ``seats`` (what a seat is), ``protocol`` (how a verdict
is reached), ``debate`` (who speaks when), ``gate`` (how the guard asks).
"""
