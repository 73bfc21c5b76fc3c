"""Writes the commands of a layer, in an order that is right one after the other."""
