"""One module per page of the console."""
