"""The main job on real text: an agent reads the Python standard library through a small window."""
