"""Doors on the engine for programs that ask over a wire: tools of the Model Context Protocol, and a page in a browser."""
