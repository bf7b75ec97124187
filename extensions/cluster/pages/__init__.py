"""Pages in a cluster: the node with the pages forwards requests to the nodes that keep the calls."""
