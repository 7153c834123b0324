"""Adapters for agent frameworks: one module for each framework, and their common part.

Import the module that you need, such as ``siltstone.adapters.langchain``. Each needs its framework, which
comes with the extra of the same name. Siltstone itself imports none of them.
"""
