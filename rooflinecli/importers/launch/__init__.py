"""Launch commands and configs of serving and training tools: read into the options of an estimate, and written from them.

One file of `tools/` is one tool. `locate.py` and `read.py` read the launches of a command, script or config, `emit.py` writes one;
`shell_evaluator.py` and `containers.py` unwrap shell scripts and container specs.
"""
