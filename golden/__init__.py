"""Truth: the float tier and the integer model. Imports nothing else of ours."""
