"""One reading of a text, which all gates share: its disguises, word pieces, windows and languages, each made once.

``normalization`` folds what only looks different, ``views`` takes disguises off, ``windows`` chooses what is read of a
text, ``text`` holds what was made of it.
"""
