"""What bounds a BERT encoder on the accelerator: breakdown, intensity, bandwidth, ablations, an estimate of energy."""
