"""The fault programme: what dies, stops, fills up or lies while clients go on calling.

One load runs against one service (``load``, ``traffic``), a case breaks something (``cases``), and after
each case the requests that the upstream saw are compared with the rows (``oracle``). The suite runs the
short form; ``python -m tests.faults --minutes 30 --json report.json`` runs all cases again and again, and
``python -m tests.faults.soak --minutes 60 --rate 50`` looks for what grows.
"""
