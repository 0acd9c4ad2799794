"""Workloads, references, measurement and reports: the only part of croq that knows what attention is."""
