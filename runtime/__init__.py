"""What a host needs to use an accelerator: the driver, and what it asks of the way to the hardware."""
