"""Extensions of others: found, loaded in a process of their own, and told of calls that were stored."""
