"""Sums of calls by hour and day, with counters and histograms, and the reports that read them."""
