"""What all engines have in common: their border to the control part."""
