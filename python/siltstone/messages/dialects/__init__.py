"""The dialects we read, one file each."""
