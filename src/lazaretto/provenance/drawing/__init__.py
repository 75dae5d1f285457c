"""Parts of the graph as pictures and files."""
