"""Training and measuring the embedded jury.

Read in this order: ``data`` and ``foreign`` (what it learns from), ``twins`` (patterns written for it), ``bundle`` (the
folds and the trainings), ``multi_seat`` (how seats learn; runs alone elsewhere), ``evaluation`` (fitted numbers and
figures), ``assembly`` (what is shipped).
"""
