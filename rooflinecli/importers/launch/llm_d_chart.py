"""Values of the llm-d model service chart: the servers that the chart makes of them.

Keys as in llm-d-modelservice 0.4 (charts/llm-d-modelservice/values.yaml): `modelCommand: vllmServe` puts `vllm serve MODEL` before
the arguments, and `parallelism` its sizes after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rooflinecli.importers.source import Options, Tree

_SIZES = {"tensor": "--tensor-parallel-size", "data": "--data-parallel-size", "pipeline": "--pipeline-parallel-size"}


def servers(values: object) -> Iterator[Options]:
    """Containers in the form of Kubernetes, each under its role; none for values of another chart."""
    engines = values.get("servingEngineSpec") if isinstance(values, Mapping) else None
    for model in (engines.get("modelSpec") or ()) if isinstance(engines, Mapping) else ():
        if isinstance(model, Mapping) and model.get("modelURL"):  # vLLM's production-stack
            yield {"replicas": model.get("replicaCount", 1), "pod": {"command": _production(model)}}
    if not isinstance(values, Mapping) or not isinstance(artifacts := values.get("modelArtifacts"), Mapping):
        return
    roles = [role for role in ("prefill", "decode") if _runs(values.get(role))]
    for role in roles:
        pool = values[role]
        for container in pool["containers"]:
            command = _command(container, _model(artifacts), pool.get("parallelism"))
            if isinstance(container, Mapping) and command:
                split = ["--disaggregation-mode", role] if len(roles) > 1 else []
                yield {
                    "replicas": pool.get("replicas", 1),
                    "pod": {**container, "command": command + split, "args": None},
                }


def _production(model: Tree) -> list[str]:
    """vllmConfig has its flags in camel case, and further ones as they are."""
    config = model.get("vllmConfig")
    config = config if isinstance(config, Mapping) else {}
    flags = [
        f"--{re.sub('(?<=[a-z])(?=[A-Z])', '-', str(key)).lower()}" + ("" if value is True else f"={value}")
        for key, value in config.items()
        if key not in ("extraArgs", "v0", "v1") and value is not False
    ]
    return ["vllm", "serve", str(model["modelURL"]), *flags, *map(str, config.get("extraArgs") or [])]


def _runs(pool: object) -> bool:
    return (
        isinstance(pool, Mapping) and pool.get("create", True) is not False and isinstance(pool.get("containers"), list)
    )


def _model(artifacts: Tree) -> str:
    """The checkpoint: its name, or the repository of hf://ORGANISATION/NAME."""
    uri = str(artifacts.get("uri") or "")
    return str(artifacts.get("name") or uri.partition("://")[2].partition("?")[0])


def _command(container: object, model: str, parallelism: object) -> list[str]:
    if not isinstance(container, Mapping) or container.get("modelCommand") not in ("vllmServe", "imageDefault"):
        return []
    sizes = parallelism if isinstance(parallelism, Mapping) else {}
    flags = [word for key, flag in _SIZES.items() if sizes.get(key) for word in (flag, str(sizes[key]))]
    return ["vllm", "serve", model, *map(str, container.get("args") or []), *flags]
