"""Metering turns what was sent and received into tokens and money: pure functions, no I/O."""
