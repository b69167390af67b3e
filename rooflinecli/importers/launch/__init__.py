"""Launch commands and configs of serving and training tools: read into the options of an estimate, and written from them.

One file of `tools/` is one tool. `reading.py` finds launches in a command, a script or a config; `writing.py` writes one;
`shell.py` and `containers.py` know how people wrap them.
"""
