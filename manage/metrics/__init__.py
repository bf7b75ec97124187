"""``/metrics``: counters, histograms and gauges for Prometheus."""
