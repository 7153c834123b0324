"""``waterfall``: messages in full, a recent and a long-term summary, and a vault of Markdown files."""
