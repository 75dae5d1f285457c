"""The content gate: moderation by debate, with reasons, precedents and appeals.

Read ``records``, ``debate`` and ``gate``, in this order.
"""
