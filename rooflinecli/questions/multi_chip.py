"""Several chips in one question: `--hw h100,b200`, each with its own price where `--price b200=4.50` gives one."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.engine import build_request
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.name_lookup import find, split_count
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.prices import KINDS, choose, hourly, offers

Options = dict[str, object]  # options as written, by name


def named(hw: object) -> list[str]:
    """The chips of `--hw`, each once, in the order written."""
    items = hw if isinstance(hw, (list, tuple)) else [hw or ""]
    return list(dict.fromkeys(name.strip() for item in items for name in str(item).split(",") if name.strip()))


def each(options: Options, hw: object = None) -> dict[str, Options]:
    """chip -> its own options. Raises UsageError for a price of a chip that is not among them."""
    chips = named(options.get("hw", options.get("hardware")) if hw is None else hw)
    if not chips:
        raise UsageError("no --hw given; name one or several (`roofline hardware` lists them)", "hw")
    found = prices(options.get("price"), chips)
    _warn_of_unlike_contracts([chip for chip in chips if chip not in found])
    rest = {k: v for k, v in options.items() if k not in ("hw", "hardware", "price")}
    return {chip: {**rest, "hw": chip, **({"price": found[chip]} if chip in found else {})} for chip in chips}


def _warn_of_unlike_contracts(chips: list[str]) -> None:
    """Dollars of chips priced by their own files compare only where the offers are of one kind: on demand, reserved, spot."""
    if len(chips) < 2:
        return
    specs = {chip: load_hardware(_name(chip)) for chip in chips}
    chosen = {chip: price.offer for chip, spec in specs.items() if (price := choose(spec)) is not None}
    if len({offer.kind for offer in chosen.values()}) < 2:
        return
    of_kind = {kind: [c for c, offer in chosen.items() if offer.kind == kind] for kind in KINDS}
    named = ", ".join(f"{' '.join(found)} {kind}" for kind, found in of_kind.items() if found)
    shared = set.intersection(*({offer.kind for offer in offers(specs[chip])} for chip in chosen))
    alike = next((f"--price {kind}" for kind in KINDS if kind in shared), "--price CHIP=USD")
    build_request.warn(f"prices come from different kinds of contract ({named}); {alike} compares like with like")


def prices(written: object, chips: list[str]) -> dict[str, str]:
    """chip -> USD per device-hour as written: `2.50` for all of them, or `h100=2.50,b200=4`; the chip's own goes before.

    Raises UsageError for one that is no price, and for a chip that is not asked about.
    """
    items = [part.strip() for part in ("" if written is None else str(written)).split(",") if part.strip()]
    own: dict[str, str] = {}
    for item in items:
        name, equals, price = item.rpartition("=")
        if not price.strip():
            raise UsageError(f"--price {item}: no price after the =; write for example {name.strip()}=2.50", "price")
        try:
            build_request.value(OPTIONS["price"], price)
        except UsageError as error:
            example, bound = f"{name.strip()}=2.50" if equals else "2.50", str(error).rpartition(": ")[2]
            why = bound if bound.startswith("must") else f"expected USD per device-hour, such as {example}"
            raise UsageError(f"--price {item}: {why}", "price") from None
        for chip in [_among(name.strip(), chips)] if equals else chips:
            if equals or chip not in own:
                own[chip] = price.strip()
    return own


def usd_per_device_hour(spec: HardwareSpec, written: object) -> float | None:
    """The price of a device as `--price` gives it, else that of its file; None where neither has one."""
    given = None if written is None else build_request.value(OPTIONS["price"], written)
    return float(given) if isinstance(given, (int, float)) else hourly(spec, given or "")


def unpriced(asked: dict[str, Options]) -> list[str]:
    """Chips of which neither their file nor `--price` says what they cost."""
    return [chip for chip, own in asked.items() if "price" not in own and hourly(load_hardware(_name(chip))) is None]


def remedy(chips: list[str]) -> str:
    """Return the option that gives these chips a price."""
    written = ",".join(f"{chip}=USD" for chip in chips)
    return f"no price is known for {', '.join(chips)}; add --price {written} per device-hour"


def _name(chip: str) -> str:
    return split_count("hardware", chip)[1]


def _among(name: str, chips: list[str]) -> str:
    if name in chips:
        return name
    files = {find("hardware", _name(chip)): chip for chip in chips}
    try:
        path = find("hardware", name)
    except UsageError:
        raise unknown("chip of --price", name, chips, option="price") from None
    if path not in files:
        raise UsageError(f"--price {name}: that chip is not among --hw {','.join(chips)}; name one of them", "price")
    return files[path]
