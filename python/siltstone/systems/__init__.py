"""The five documented systems, a room for each: its policy, its preset, its files and its prompts."""
