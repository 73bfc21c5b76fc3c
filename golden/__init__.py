"""Float BERT, the quantiser and the integer model that the hardware has to equal byte for byte."""
