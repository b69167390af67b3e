"""The YAML of a model file."""

from __future__ import annotations

import re

import yaml

from rooflinecli.core.record import Json

# Text that a YAML reader, ours or a stricter one, could take for a number
_NUMBERLIKE = re.compile(r"^[-+.\d]")


class _Dumper(yaml.SafeDumper):
    """Flow style for blocks, quotes for text that looks like a number."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    str,
    lambda dumper, value: dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style='"' if _NUMBERLIKE.match(value) or len(value) > 60 else None
    ),
)


def to_yaml(model: Json) -> str:
    """The text of a model file."""
    lines = []
    for key, value in model.items():
        if key == "towers" and value:
            lines += [f"{key}:", *(line for tower in value for line in _yaml_tower(tower))]
        elif isinstance(value, list) and value:
            lines += [f"{key}:", *(f"  - {_one_line(item)}" for item in value)]
        else:
            lines.append(f"{key}: {_one_line(value)}")
    return "\n".join(lines) + "\n"


def _yaml_tower(tower: dict[str, object]) -> list[str]:
    """A model inside the model, a field on each line."""
    lines: list[str] = []
    for key, value in tower.items():
        start = "    " if lines else "  - "
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"{start}{key}:", *(f"      - {_one_line(item)}" for item in value)]
        else:
            lines.append(f"{start}{key}: {_one_line(value)}")
    return lines


def _one_line(value: object) -> str:
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
