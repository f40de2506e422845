"""The helper package of the RAG research handbook; import from its modules, which stand in the order of the data."""

__version__ = "0.1.0"
