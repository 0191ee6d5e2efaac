"""Engines: how a run is carried out, never what it decides."""
