"""One reading of a text, which all gates share: its disguises, word pieces, windows and languages, each made once.

``normalization`` folds trivial differences, ``views`` takes disguises off, ``windows`` chooses, ``text`` holds it all.
"""
