"""The readers of the dialects, one file each."""
