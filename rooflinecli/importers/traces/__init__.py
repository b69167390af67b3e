"""Recorded load."""
