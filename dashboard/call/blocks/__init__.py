"""Content blocks of messages as a page displays them. ``reading.py`` is the entry; each family of
block types has a module of its own.
"""
