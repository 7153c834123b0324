"""The slow twin: what the compiled core computes, in plain Python that is written to be read.

Tests compare the core with it, and the documentation quotes it. It imports nothing of the package. It needs
``xxhash`` and ``snowballstemmer``, which come with the development tools.

Python and Rust bring Unicode tables of their own, of different versions. The twins agree on every code
point that is assigned in the older one's.
"""
