"""The library of precedents: cases, how they are found, and the versions of the library."""
