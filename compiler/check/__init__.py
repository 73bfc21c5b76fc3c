"""Refuses a program that is not provably right."""
