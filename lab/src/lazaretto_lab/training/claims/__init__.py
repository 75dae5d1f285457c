"""How the relation model is made: pairs of claims, their features, training, calibration."""
