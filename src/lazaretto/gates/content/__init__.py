"""The content gate: moderation by debate, with reasons, precedents and appeals.

Read ``records``, ``panel``, ``arbitration``, ``debate`` and ``gate``, in this order.
"""
