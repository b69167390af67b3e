"""Interfaces to the questions: the command line, Python, tools of the Model Context Protocol, and a page in a browser."""
