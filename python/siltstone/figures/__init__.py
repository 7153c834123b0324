"""Figures of a store for people: those of the command line and of the inspector."""
