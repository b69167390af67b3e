"""Tools, one per file: how a launch is recognized, read and written, and the version of the tool's documentation."""
