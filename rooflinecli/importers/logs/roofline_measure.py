"""The log of `roofline measure`: a JSON line per kernel; matmuls and collectives inform a calibration."""

from __future__ import annotations

from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "roofline measure"
SCHEMA = "roofline-measure/1"


def claims(source: Source) -> bool:
    return source.looks_like_json and SCHEMA in source.head


def read(source: Source) -> list[MeasuredRow]:
    found, machines = [], dict[object, Json]()
    for line, record in source.objects:
        if record.get("key") == "environment":
            on = {"device": [str(record["kind"])]} if record.get("kind") else {}
            machines[record.get("fingerprint")] = on | ({"cpu": True} if record.get("platform") == "cpu" else {})
        seconds = positive(record.get("time_s"))
        probe = _probe(record) if record.get("schema") == SCHEMA and seconds else None
        if probe and seconds:
            quantity = "collective" if "op" in probe else "matmul"
            machine = machines.get(record.get("fingerprint"), {})
            found.append(MeasuredRow(source.at(line), TOOL, quantity, seconds, probe={**probe, **machine}))
    return found


def _probe(record: Json) -> Json | None:
    """Sizes of a matmul or of a collective over n devices; nothing for other kernels."""
    sizes = record.get("sizes")
    if not isinstance(sizes, dict):
        return None
    if record.get("suite") == "collectives" and positive(sizes.get("bytes")) and positive(sizes.get("n")):
        return {"op": record.get("op"), "bytes": positive(sizes["bytes"]), "n": positive(sizes["n"])}
    m, k, n = (positive(sizes.get(name)) for name in "mkn")
    if record.get("kind") == "matmul" and m and k and n:
        return {"m": m, "n": n, "k": k, "dtype": record.get("dtype")}
    return None
