"""Thresholds and cases learnt from what people decided; calibrations of foresight."""
