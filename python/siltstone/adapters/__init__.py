"""Hook-ins for agent frameworks: one module for each, and what they share.

Import the one you need, such as ``siltstone.adapters.langchain``. Each needs its framework, which comes with
the extra of the same name; none is imported by siltstone itself.
"""
