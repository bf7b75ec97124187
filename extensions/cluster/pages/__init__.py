"""Pages in a cluster: the node with people forwards them to the nodes that keep the calls."""
