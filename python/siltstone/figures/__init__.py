"""Figures of a store that people look at: what the command line prints, and the inspector shows."""
