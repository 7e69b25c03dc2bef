"""What is known of GPU sizes: rows of ``data/gpus.toml``, or else what a size's name says.

Names are read by Azure's published convention: family, sub-family, number of vCPUs, constrained
vCPUs, additive features, accelerator type, version
(https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions).
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from ai4infra.ids import size_key
from ai4infra.model import GpuFacts, Record, SeriesClass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROMO: Final = "PROMO"
FROM_NAME: Final = "name"
"""``GpuFacts.source`` of a size without a row."""

_CLASSES: Final[dict[str, SeriesClass]] = {
    "NC": "NC",
    "ND": "ND",
    "NV": "NV",
    "NG": "NG",
    "NP": "NP",
    "NCC": "NCC",
}
_NAME = re.compile(
    r"(?:Standard_|Basic_)?(?P<family>[A-Z]+)(?P<vcpus>\d{1,6})(?:-(?P<constrained>\d{1,6}))?"
    r"(?P<features>[A-Z]*?)(?P<qualifier>[A-Z]\d{1,6})?(?P<tokens>(?:_[A-Z0-9]+)*)",
    re.ASCII | re.IGNORECASE,
)
_VERSION = re.compile(r"V(\d{1,2})", re.ASCII)
_ACCELERATOR = re.compile(r"[A-Z]+\d+[A-Z0-9]*", re.ASCII)
_MEMORY_SUFFIX = re.compile(r"(.+?)[\s_-]+(\d{1,4})\s*G(?:i?B)?", re.ASCII | re.IGNORECASE)
_MAKERS: Final = ("nvidia", "tesla", "amd")


class SizeName(Record, frozen=True):
    """A size name, taken apart; letters are in upper case except the features."""

    family: str
    """Family and sub-family letters: ``NC``, ``NCC``, ``D``."""
    vcpus: int
    """The number in the name: the vCPUs, for every series since 2016."""
    constrained_vcpus: int | None = None
    """vCPUs that can be used, where the name constrains them (``M8-2ms`` is 2)."""
    features: str = ""
    """Additive feature letters: ``isr``, ``ads``."""
    qualifiers: tuple[str, ...] = ()
    """Other tokens, in order: ``NDR``, ``XL``, ``G5``."""
    accelerator: str | None = None
    """Accelerator token: ``A100``, ``RTXPRO6000BSE``; None where the name has none."""
    version: int | None = None
    promo: bool = False

    @property
    def series_class(self) -> SeriesClass | None:
        """Class of an accelerator series, ``other`` for unknown N letters, None for the rest."""
        if not self.family.startswith("N"):
            return None
        return _CLASSES.get(self.family, "other")

    @property
    def infiniband(self) -> bool:
        """Whether the feature letter r says that the size has RDMA over InfiniBand."""
        return "r" in self.features

    @property
    def temp_disk(self) -> bool:
        """Whether the feature letter d promises a local disk; older sizes have one without it."""
        return "d" in self.features

    @property
    def confidential(self) -> bool:
        """Whether the sub-family is confidential."""
        return self.family == "NCC"


class CatalogRow(GpuFacts, frozen=True, kw_only=True):
    """A row of the data: the facts, and what a SKU list says of the size beside them."""

    vcpus: int
    memory_gib: float
    quota_family: str | None = None
    """Quota family, verbatim as the SKU list spells it; None where no listing was to be had."""
    temp_disk_gib: float | None = None
    """SCSI temp disk; 0 means none."""
    api_gpus: int | None = None
    """The ``GPUs`` capability as the SKU list has it, wrong or not; None where it has none."""
    retirement_source: str | None = None
    """Where the retirement date was read."""
    also: tuple[str, ...] = ()
    """Further sources, each with the figures that come from it."""


class _Model(Record, frozen=True, kw_only=True):
    """A GPU model of the ``[models]`` table."""

    name: str
    vendor: str
    memory_gib: float | None = None
    aliases: tuple[str, ...] = ()
    gpu: bool = True


def facts(size: str) -> GpuFacts:
    """Return what is known of a VM size; case and the ``Standard_`` prefix do not matter.

    A size without a row gets what its name says, with the source ``name``; a name that says
    nothing gets the class ``other`` and no source. Never raises.
    """
    row = catalog().get(size_key(size))
    return row or _facts_from_name(size.strip())


def size_name(name: str) -> SizeName | None:
    """Take a size name apart; None for what is no VM size name (such as a host type)."""
    match = _NAME.fullmatch(name.strip())
    if match is None:
        return None
    tokens = match["tokens"].upper().split("_")[1:]
    version = next((t for t in reversed(tokens) if _VERSION.fullmatch(t)), None)
    accelerator = next((t for t in reversed(tokens) if _is_accelerator(t)), None)
    attached = [match["qualifier"].upper()] if match["qualifier"] else []
    return SizeName(
        family=match["family"].upper(),
        vcpus=int(match["vcpus"]),
        constrained_vcpus=int(match["constrained"]) if match["constrained"] else None,
        features=match["features"].lower(),
        qualifiers=(*attached, *(t for t in tokens if t not in (version, accelerator, _PROMO))),
        accelerator=accelerator,
        version=int(version[1:]) if version else None,
        promo=_PROMO in tokens,
    )


def series_class(name: str) -> SeriesClass | None:
    """Return the accelerator class of a size name, None for ordinary sizes and other names."""
    parsed = size_name(name)
    return parsed.series_class if parsed else None


def models() -> tuple[str, ...]:
    """Return the GPU models that are known, as people type them, without FPGAs and video cards."""
    return tuple(model.name for model in _models() if model.gpu)


def model_named(text: str) -> str | None:
    """Return the GPU model that a text names, None when it is not known.

    Case, blanks, hyphens, the maker (``NVIDIA A100``) and a memory (``A100-80GB``) do not matter.
    """
    return _model_names().get(_model_key(_memory_apart(text)[0]))


def gpu_matches(wanted: str, model: str | None, memory_gib: float | None = None) -> bool:
    """Tell whether a GPU model is the wanted one, ignoring case, blanks and hyphens.

    A memory in the wanted text (``A100-80GB``) has to equal ``memory_gib`` where that is given.
    """
    name, memory = _memory_apart(wanted)
    if model is None or _same_model_key(name) != _same_model_key(model):
        return False
    return memory is None or memory_gib is None or memory == memory_gib


def all_sizes() -> tuple[str, ...]:
    """Return the names of all sizes that have a row."""
    return tuple(row.size for row in catalog().values())


def fraction(text: str) -> Fraction:
    """Return an exact GPU count (``8``, ``1/6``) as a number; ValueError for anything else."""
    if not re.fullmatch(r"\d{1,4}(?:/[1-9]\d{0,3})?", text, re.ASCII):
        raise ValueError(f"not a GPU count: {text!r}")
    return Fraction(text)


@cache
def catalog() -> dict[str, CatalogRow]:
    """Return all rows by ``size_key``; to be read, not to be changed."""
    rows = (
        _row(size, {**series, **own})
        for series in _data()["series"].values()
        for size, own in series["sizes"].items()
    )
    return {size_key(row.size): row for row in rows}


_ENCODED = dict(zip(CatalogRow.__struct_fields__, CatalogRow.__struct_encode_fields__, strict=True))


def _row(size: str, fields: dict[str, Any]) -> CatalogRow:
    fields = {key: value for key, value in fields.items() if key != "sizes"}
    fields["also"] = tuple(fields.get("also", ()))
    model = _model(fields["gpu_model"])
    fields |= {"size": size, "vendor": model.vendor if model else None}
    # Unlike the constructor, convert makes 80 GiB the float that the field is.
    return msgspec.convert({_ENCODED[key]: value for key, value in fields.items()}, CatalogRow)


def _facts_from_name(size: str) -> GpuFacts:
    parsed = size_name(size)
    if parsed is None or parsed.series_class is None:
        return GpuFacts(size=size, series_class="other")
    model = _model(parsed.accelerator)
    return GpuFacts(
        size=size,
        series_class=parsed.series_class,
        gpu_model=model.name if model else parsed.accelerator,
        vendor=model.vendor if model else None,
        gpu_memory_gib=model.memory_gib if model else None,
        confidential=parsed.confidential,
        fpga=parsed.series_class == "NP",
        source=FROM_NAME,
    )


def _is_accelerator(token: str) -> bool:
    """Tell an accelerator token (letters, then digits: ``V710``) from ``NDR``, ``XL``, ``16``."""
    return bool(_ACCELERATOR.fullmatch(token)) and not _VERSION.fullmatch(token)


def _memory_apart(text: str) -> tuple[str, int | None]:
    match = _MEMORY_SUFFIX.fullmatch(text.strip())
    return (match[1], int(match[2])) if match else (text, None)


def _model_key(text: str) -> str:
    key = re.sub(r"[\s_-]+", "", text).casefold()
    for maker in _MAKERS:
        key = key.removeprefix(maker)
    return key


def _same_model_key(text: str) -> str:
    key = _model_key(text)
    return _model_key(_model_names().get(key, key))


def _model(token: str | None) -> _Model | None:
    name = _model_names().get(_model_key(token)) if token else None
    return next((model for model in _models() if model.name == name), None)


@cache
def _model_names() -> dict[str, str]:
    """Map the key of each model's name and aliases to its name."""
    return {
        _model_key(text): model.name for model in _models() for text in (model.name, *model.aliases)
    }


@cache
def _models() -> tuple[_Model, ...]:
    return tuple(_Model(name=name, **fields) for name, fields in _data()["models"].items())


@cache
def _data() -> dict[str, Any]:
    text = resources.files("ai4infra").joinpath("data/gpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
