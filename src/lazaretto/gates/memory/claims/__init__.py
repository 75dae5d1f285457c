"""What memories say, and whether they say it together: claims with typed values, relations, and who may change what."""
