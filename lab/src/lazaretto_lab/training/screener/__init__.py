"""Training and evaluating the text-memory screener: corpora, matched pairs, augmentation, training."""
