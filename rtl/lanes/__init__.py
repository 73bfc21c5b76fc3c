"""What the lanes of both arithmetic engines are made of: records in, rounding shifts, panels out."""
