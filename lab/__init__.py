"""Studies that set the constants of rooflinecli: fits, refits and tables of published limits. Not part of the wheel; run from a checkout."""
