"""How to install an extra of this package, from where the package itself came."""

from __future__ import annotations

from pathlib import Path


def install(extra: str) -> str:
    """The `pip install` command of an extra: from the index, or from the checkout or address that this package was installed from."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    root = Path(__file__).parents[2]
    if (root / "pyproject.toml").is_file():  # a checkout, whether installed or on the path
        return f"pip install '{root}[{extra}]'"
    try:
        origin = json.loads(distribution("rooflinecli").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = origin.get("url", "")
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}"
    return f"pip install 'rooflinecli[{extra}]{f' @ {url}' if url else ''}'"
