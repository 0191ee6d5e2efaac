"""Benchmarks of dedup_pipeline: generators, whole-process measurement, peers. See README.md here."""
