"""Language models as the agents of a crew: what they do with what they read, with and without a defence."""
