"""From counts to line integrals: flat field, scatter offset, dead pixels, logarithm; each step in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import conv2d

from duotomo.errors import DuotomoError, NonFiniteError
from duotomo.io.scan import Scan
from duotomo.io.scan_options import ScanOptions, Values

MANY_DEAD = 0.01
"""Share of the pixels above which repairing them is worth a warning."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """How counts become line integrals.

    Parameters
    ----------
    flat_field : float, optional
        Counts without the breast; the scan's own, unless given.
    estimate_flat_field : bool
        Take it from the pixels that nothing covers, where there is no other.
    scatter_offset : float
        Counts that are subtracted first.
    least_transmission : float
        What a pixel is taken to let through at least, as a part of the flat field.
    repair_dead : bool
        Fill pixels of zero, NaN or infinite counts, and those that are saturated or have no flat field, from
        their neighbours.
    saturation : float, optional
        Counts from which on a pixel is dead.
    clip_negative : bool
        Make pixels that are brighter than the flat field 0, which biases noise upwards.

    Raises
    ------
    DuotomoError
        If a number is out of its range: counts are positive, and transmissions
        between 0 and 1.

    Examples
    --------
    >>> LogSettings(flat_field=42857.0).scatter_offset
    0.0
    """

    flat_field: float | None = None
    estimate_flat_field: bool = False
    scatter_offset: float = 0.0
    least_transmission: float = 1e-5
    repair_dead: bool = True
    saturation: float | None = None
    clip_negative: bool = False

    def __post_init__(self) -> None:
        flat, saturation, unit = self.flat_field, self.saturation, "counts per pixel"
        share = "a small share of the flat field"
        for name, allowed, holds, give in (
            ("flat_field", "above 0", flat is None or 0 < flat < math.inf, unit),
            ("scatter_offset", "of 0 or more", 0 <= self.scatter_offset < math.inf, unit),
            ("least_transmission", "between 0 and 1", 0 < self.least_transmission < 1, share),
            ("saturation", "above 0", saturation is None or saturation > 0, unit),
        ):
            if not holds:
                raise DuotomoError(
                    f"LogSettings: expected {name} {allowed}; got {getattr(self, name)}. Give {give}."
                )


def log_settings(options: ScanOptions) -> LogSettings:
    """Return how the counts of a scan become line integrals, as its options have it."""
    return LogSettings(
        flat_field=options.flat_field,
        estimate_flat_field=options.estimate_flat_field,
        scatter_offset=options.scatter_offset,
        least_transmission=options.least_transmission,
        repair_dead=not options.keep_dead,
        saturation=options.saturation,
    )


def to_line_integrals(scan: Scan, settings: LogSettings | None = None) -> tuple[Scan, tuple[str, ...]]:
    """Return the scan as line integrals, and in words what each step did and to how many pixels.

    `p = -log(max((I - scatter) / I_0, least_transmission))`, once dead pixels have been filled with means of
    their neighbours' transmissions. Line integrals are returned as they are.

    Parameters
    ----------
    scan : Scan
        Of counts, or of line integrals.
    settings : LogSettings, optional
        The default ones unless given.

    Returns
    -------
    scan : Scan
        Of line integrals.
    words : tuple of str
        One sentence for each step.

    Raises
    ------
    DuotomoError
        If there is no flat field, or too many pixels are dead.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> counts = torch.full(paper().shape, 1000.0)
    >>> counts[0, 5, 5] = 0.0
    >>> scan = Scan(projections=counts, values=Values.COUNTS, acquisition=paper())
    >>> scan, words = to_line_integrals(scan, LogSettings(flat_field=2000.0))
    >>> round(scan.projections[0, 5, 5].item(), 4)
    0.6931
    >>> for line in words:
    ...     print(line)
    flat field: 2000 counts, as given
    dead pixels: 1 of 180224 (1 without counts) filled from their neighbours
    logarithm: 0 of 180224 pixels taken to let through 1e-05; 0 brighter than the flat field
    """
    settings = settings or LogSettings()
    if scan.values is Values.LINE_INTEGRALS:
        return scan, ("line integrals already: nothing was done",)
    counts = scan.projections
    kinds = _dead_kinds(counts, settings)
    flat, flat_words = _flat_field(scan, settings, kinds)
    kinds["without flat field"] = (~torch.isfinite(flat) | (flat <= 0)).expand_as(counts)
    dead = torch.stack(list(kinds.values())).any(dim=0)
    words = [flat_words]
    if settings.scatter_offset:
        words.append(f"scatter: {settings.scatter_offset:g} counts subtracted")
    transmission = (counts - settings.scatter_offset) / flat
    warnings = scan.warnings
    if settings.repair_dead:
        transmission = fill_dead(transmission, dead)
        words.append(_dead_words(kinds, dead))
        share = float(dead.double().mean())
        if share > MANY_DEAD:
            warnings = (*warnings, f"{share:.1%} of the pixels are dead; they were filled from others")
    else:
        _check_finite(transmission)
        words.append(f"dead pixels: {int(dead.sum())} of {dead.numel()} left as they are")
    low, bright = transmission < settings.least_transmission, transmission > 1
    integrals = -torch.log(transmission.clamp(min=settings.least_transmission))
    if settings.clip_negative:
        integrals = integrals.clamp(min=0)
    words.append(
        f"logarithm: {int(low.sum())} of {low.numel()} pixels taken to let through "
        f"{settings.least_transmission:g}; {int(bright.sum())} brighter than the flat field"
        + (", which became 0" if settings.clip_negative else "")
    )
    done = replace(
        scan, projections=integrals, values=Values.LINE_INTEGRALS, flat_field=None, warnings=warnings
    )
    return done, tuple(words)


def _dead_kinds(counts: torch.Tensor, settings: LogSettings) -> dict[str, torch.Tensor]:
    finite = torch.isfinite(counts)
    kinds = {"NaN or infinite": ~finite, "without counts": finite & (counts <= 0)}
    if settings.saturation is not None:
        kinds["saturated"] = finite & (counts >= settings.saturation)
    return kinds


def _flat_field(
    scan: Scan, settings: LogSettings, kinds: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, str]:
    counts = scan.projections
    if settings.flat_field is not None:
        instead = ", instead of the file's" if scan.flat_field is not None else ""
        return torch.full_like(counts[:1, :1, :1], settings.flat_field), (
            f"flat field: {settings.flat_field:g} counts, as given{instead}"
        )
    if scan.flat_field is not None:
        flat = scan.flat_field.to(counts)
        live = flat[torch.isfinite(flat) & (flat > 0)]
        return flat.reshape((1,) * (3 - flat.ndim) + tuple(flat.shape)), (
            f"flat field: the file's, {float(live.min()):g} to {float(live.max()):g} counts"
        )
    if settings.estimate_flat_field:
        flat, share = open_field(counts, torch.stack(list(kinds.values())).any(dim=0))
        return flat.to(counts), (
            f"flat field: {float(flat.min()):g} to {float(flat.max()):g} counts, from the "
            f"{float(share.min()):.1%} or more of each view's pixels that nothing covers"
        )
    raise DuotomoError(
        "to_line_integrals: expected the flat field of counts; got none. Give `flat_field`, the counts per "
        "pixel without the breast, or `estimate_flat_field=True`."
    )


def _dead_words(kinds: dict[str, torch.Tensor], dead: torch.Tensor) -> str:
    counted = [f"{n} {kind}" for kind, mask in kinds.items() if (n := int(mask.sum()))]
    of = f" ({', '.join(counted)})" if counted else ""
    return f"dead pixels: {int(dead.sum())} of {dead.numel()}{of} filled from their neighbours"


def _check_finite(transmission: torch.Tensor) -> None:
    n_bad = int((~torch.isfinite(transmission)).sum())
    if n_bad:
        raise NonFiniteError(
            f"to_line_integrals: expected finite counts and a positive flat field where dead pixels are left "
            f"as they are; got {n_bad} pixels without. Repair dead pixels."
        )


LEAST_SHARE = 0.01
"""Of a view's pixels that have to be open for their counts to be taken as the flat field's."""

_BINS_PER_E = 50
"""Of the histogram, whose bins are 2 % wide."""

_WIDTH = 0.1
"""Of the peak: pixels within this share of its middle are averaged."""


def open_field(counts: torch.Tensor, dead: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the counts of the open field in every view, (view, 1, 1), and the share of pixels that show it.

    The open field is brighter than the breast, and even: the highest peak of the histogram of log counts
    within 20 % below the brightest pixels, of which 0.1 % are left out. The median of the pixels within 10 %
    of that peak is returned.

    counts, dead: (view, v, u).

    >>> view = torch.full((1, 20, 20), 1000.0)
    >>> view[:, 5:, :] = 100.0
    >>> field, share = open_field(view, torch.zeros(1, 20, 20, dtype=torch.bool))
    >>> field.item(), share.item()
    (1000.0, 0.25)
    """
    found = [
        _of_view(view[~bad], number) for number, (view, bad) in enumerate(zip(counts, dead, strict=True))
    ]
    fields, shares = zip(*found, strict=True)
    return torch.stack(fields).reshape(-1, 1, 1), torch.stack(shares)


def _of_view(live: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    live = live[live > 0]
    if live.numel() == 0:
        raise DuotomoError(
            f"open_field: expected pixels with counts; got none in view {number}. Drop that view."
        )
    bins = (live.double().log() * _BINS_PER_E).floor().long()
    low = int(bins.min())
    histogram = torch.bincount(bins - low).double()
    # Hot pixels are brighter than the open field, and few.
    above = histogram.flip(0).cumsum(0).flip(0)
    last = int((above > 1e-3 * live.numel()).nonzero().max())
    first = max(0, last - int(2 * _WIDTH * _BINS_PER_E))
    peak = first + int(histogram[first : last + 1].argmax())
    middle = torch.exp(torch.tensor((low + peak + 0.5) / _BINS_PER_E, dtype=torch.float64))
    near = live[(live - middle).abs() <= _WIDTH * middle]
    share = torch.tensor(near.numel() / live.numel())
    if share < LEAST_SHARE:
        raise DuotomoError(
            f"open_field: expected at least {LEAST_SHARE:.0%} of the pixels uncovered; got "
            f"{float(share):.2%} in view {number}. Give the flat field as a number."
        )
    return near.median(), share


MOST_DEAD = 0.5
"""Of a view: beyond this share there is no view to repair."""


def fill_dead(images: torch.Tensor, dead: torch.Tensor) -> torch.Tensor:
    """Return images in which every dead pixel is the mean of its live neighbours, from the rim inwards.

    Rounds of `p = sum(live * p) / sum(live)` over the eight neighbours, until none is left. Live pixels stay
    bit for bit.

    images, dead: (view, v, u).

    >>> image = torch.arange(9.0).reshape(1, 3, 3)
    >>> dead = image == 4.0
    >>> fill_dead(torch.where(dead, torch.nan, image), dead)[0, 1, 1].item()
    4.0
    """
    share = dead.flatten(1).double().mean(dim=1)
    worst = int(share.argmax())
    if share[worst] > MOST_DEAD:
        raise DuotomoError(
            f"fill_dead: expected at most {MOST_DEAD:.0%} dead pixels in a view; got "
            f"{float(share[worst]):.0%} in view {worst}. Drop that view, or check its detector."
        )
    filled = images.clone()
    for view in dead.flatten(1).any(dim=1).nonzero().flatten().tolist():
        filled[view] = _filled(images[view], dead[view])
    return filled


def _filled(image: torch.Tensor, dead: torch.Tensor) -> torch.Tensor:
    ring = torch.ones(1, 1, 3, 3, dtype=image.dtype, device=image.device)
    ring[..., 1, 1] = 0
    live = (~dead).to(image.dtype)[None, None]
    value = torch.where(dead, 0.0, image)[None, None]
    while bool((live == 0).any()):
        n_live, total = conv2d(live, ring, padding=1), conv2d(value, ring, padding=1)
        reached = (live == 0) & (n_live > 0)
        value = torch.where(reached, total / n_live.clamp(min=1), value)
        live = torch.where(reached, torch.ones_like(live), live)
    return value[0, 0]
