"""``spacebot``: three tiers of a window, summaries in the background, and memories saved with them."""
