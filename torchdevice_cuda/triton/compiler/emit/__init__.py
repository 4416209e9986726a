"""C++ for each family of operations."""
