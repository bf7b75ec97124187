"""Tests of the wire between a client and the upstream, in all its awkward variants."""
