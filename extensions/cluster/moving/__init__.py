"""Moving a bucket of organisations from one node of a copy to another."""
