"""One reading of a text, which all gates share: its disguises, word pieces, windows and languages, each made once.

``views`` folds trivial differences and takes disguises off, ``text`` chooses windows and holds it all.
"""
