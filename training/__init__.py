"""How the pocket models were made: what they were taught (``dialogues``) and the training itself (``train_pocket``)."""
