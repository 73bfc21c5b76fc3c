"""From float weights and calibration text to integers: scales, rounding, the quantiser."""
