"""Training and measuring the embedded jury.

Read in this order: ``data`` (what it learns from), ``training`` (how seats learn), ``runs`` (which seats, and what each
must not see), ``lexicon`` (the bag of words), ``evaluation`` (fitted numbers and figures), ``scores`` (which way of
training inner folds prefer), ``assembly`` (what is shipped).
"""
