"""Thresholds and cases learnt from people's decisions; calibrations of foresight."""
