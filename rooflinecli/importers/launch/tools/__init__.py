"""One file is one tool: how its launch is recognized, read and written, and the version of its documentation that says so."""
