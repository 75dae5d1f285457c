"""Claims of memories with typed values, relations between claims, and the rule for who may change which claim."""
