"""Verbs under test, should the table of verbs not have them yet."""

from __future__ import annotations

from rooflinecli.interfaces.cli import main

for _verb in ("aot", "ops"):
    main.VERBS.setdefault(_verb, (_verb, "under test"))
