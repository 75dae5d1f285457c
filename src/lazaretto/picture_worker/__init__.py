"""A process of its own for strangers' pictures: ``opener`` decodes, ``child`` runs it, ``pool`` feeds and ends it.

The child imports Pillow and nothing else of weight, so that it starts in a tenth of a second; it is given bytes and
gives back raw pixels and words. ``lazaretto.pictures`` is the door for everybody else.
"""
