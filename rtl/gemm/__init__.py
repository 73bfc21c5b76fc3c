"""The systolic GEMM engine: feeder, array, epilogue."""
