"""The keys of a cluster on its server: all that a node reads or writes.

taximeter:log:<bucket>       a stream: the calls of a bucket, each a file of the spool (``log.py``)
taximeter:copies             a stream without entries: its groups are the copies (``copies.py``)
taximeter:nodes              a hash: the nodes that keep a part of a copy
taximeter:buckets:<group>    a hash: the node that keeps each bucket of a copy
taximeter:moves              a hash: the moves that go on (``moving/moves.py``)
taximeter:moves:said         a hash: what the two nodes of a move say
taximeter:moves:<id>         a string: the piece of a file that was asked for last
taximeter:directory          a hash: rows of the node with people (``directory.py``)
taximeter:directory:version  a string: a number, one more with each change
taximeter:statements:key     a string: how statements of the node with people are checked
taximeter:budgets            a string: which budgets are used up (``budgets.py``)
taximeter:budgets:nodes      a hash: what each recorder node says of budgets
taximeter:erasures           a hash: the orders to erase calls that have not ended (``erasures.py``)
taximeter:erasures:nodes     a hash: what each node says of them
taximeter:limit:<window>     a list: the instants of the last admissions (``limits.py``)
taximeter:proof              a string: a number that shows that the server takes what is written
"""

LOG = "taximeter:log:"
COPIES, NODES, BUCKETS = "taximeter:copies", "taximeter:nodes", "taximeter:buckets:"
MOVES, MOVES_SAID, PIECES = "taximeter:moves", "taximeter:moves:said", "taximeter:moves:"
DIRECTORY, DIRECTORY_VERSION = "taximeter:directory", "taximeter:directory:version"
STATEMENTS_KEY = "taximeter:statements:key"
BUDGETS, BUDGETS_OF_NODES = "taximeter:budgets", "taximeter:budgets:nodes"
ERASURES, ERASURES_OF_NODES = "taximeter:erasures", "taximeter:erasures:nodes"
LIMITS = "taximeter:limit:"
PROOF = "taximeter:proof"
