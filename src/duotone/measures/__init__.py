"""Honest numbers: every client on its own test data, members and newcomers apart."""
