"""The demo: an agent reads the Python standard library through a small window."""
