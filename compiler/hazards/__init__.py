"""What commands read and write, and who touched what last: the ground that ordering stands on."""
