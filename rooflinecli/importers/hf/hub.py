"""A model by its name on the Hugging Face Hub, `org/name` or `org/name@revision`: its config.json, through huggingface_hub.

The library keeps what it fetched, answers from its cache without a network, and reads HF_TOKEN, HF_ENDPOINT and
HF_HUB_OFFLINE. The Hub is contacted only for a name that no local file has; weights are never fetched.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rooflinecli.core.errors import DataError, RooflineError, UsageError
from rooflinecli.core.extras import install
from rooflinecli.core.text import one_line
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import OtherPublisher
from rooflinecli.specs.snapshots import table

NAME = re.compile(r"(?P<repo>[\w][\w.-]*/[\w][\w.-]*)(?:@(?P<revision>[\w./-]+))?")
WAIT = 8.0  # seconds for an answer before the cache is used


def document(name: str) -> Document:
    """Load the model of a Hub name, with errors that point into its config.

    Raises UsageError for an unknown name, a gated one without a token, no network and no copy, or a missing extra;
    DataError for a config that cannot be read.
    """
    from rooflinecli.importers.hf import model_document
    from rooflinecli.importers.hf.config_json import parse_config

    match = NAME.fullmatch(name)
    assert match is not None
    path = _fetched(match["repo"], match["revision"])
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{one_line(name)}: its config.json cannot be read; fetch it again") from None
    place = Path(match["repo"]) / "config.json"  # the name in messages; the copy is in a cache under a hash
    made = model_document(place, parse_config(text, place))
    made.data["source"] = f"config.json of {match['repo']} on the Hugging Face Hub, revision {path.parent.name[:12]}"
    return made


def _fetched(repo: str, revision: str | None) -> Path:
    """The copy of a config.json in the library's cache, fetched where there is none or the Hub has another."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.utils import logging
    except ImportError:
        raise UsageError(
            f"{repo}: a name of the Hugging Face Hub needs huggingface_hub: {install('hub')}; "
            "`roofline models` lists the models that come along, and a config.json works too",
            "model",
        ) from None
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    here = not _reachable(constants.ENDPOINT)
    try:
        return Path(hf_hub_download(repo, "config.json", revision=revision, etag_timeout=WAIT, local_files_only=here))
    except Exception as error:
        raise _sentence(repo, revision, error) from None


def _reachable(endpoint: str) -> bool:
    """Whether something answers there: the library would ask for half a minute. Behind a proxy it is left to find out."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    at = urlsplit(endpoint)
    if at.scheme in getproxies() or not at.hostname:
        return True
    try:
        with socket.create_connection((at.hostname, at.port or (80 if at.scheme == "http" else 443)), timeout=WAIT / 2):
            return True
    except OSError:
        return False


def _sentence(repo: str, revision: str | None, error: Exception) -> UsageError:
    """What went wrong, by the library's class of error, with the remedy."""
    kinds = {cls.__name__ for cls in type(error).__mro__}
    for kind, text in table(Path(__file__).with_name("hub.yaml")).items():
        if kind in kinds:
            return UsageError(f"{repo}: {text.format(revision=revision)}", "model")
    return UsageError(
        f"{repo}: the Hub could not be asked ({one_line(str(error))[:120]}); give the path of its config.json", "model"
    )


def fallback(name: str, error: RooflineError) -> Document:
    """The model of the Hub where a name is none of the registry's. Raises `error` for what cannot be a Hub name, and
    UsageError with both reasons for a registered name of an organization that does not publish it."""
    if not NAME.fullmatch(name) or Path(name).exists():
        raise error
    try:
        return document(name)
    except UsageError as unreachable:
        if isinstance(error, OtherPublisher):
            raise UsageError(f"{unreachable} ({error})", "model") from None
        raise
