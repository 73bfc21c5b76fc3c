"""Where everything lies in the scratchpad, and what is done in blocks when it is small."""
