"""A process of its own for strangers' pictures: ``opener`` decodes, ``child`` runs it, ``pool`` feeds and ends it.

The child imports little but Pillow, so it starts in a tenth of a second. Others use ``lazaretto.pictures``.
"""
