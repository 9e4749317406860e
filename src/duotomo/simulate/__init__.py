"""Scans of phantoms: what a detector would have counted, as line integrals, and whole simulated visits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.simulate.demo import demo_pair
    from duotomo.simulate.options import LesionVisits, PhantomKind, SimulationOptions
    from duotomo.simulate.scanning import same_grid_noise_free, scan, scan_analytic
    from duotomo.simulate.visit import SimulatedVisit, simulate_visit
    from duotomo.simulate.visits import SimulatedVisits, machine_acquisition, make_visits

__all__ = [
    "LesionVisits",
    "PhantomKind",
    "SimulatedVisit",
    "SimulatedVisits",
    "SimulationOptions",
    "demo_pair",
    "machine_acquisition",
    "make_visits",
    "same_grid_noise_free",
    "scan",
    "scan_analytic",
    "simulate_visit",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "demo": ("demo_pair",),
        "options": ("LesionVisits", "PhantomKind", "SimulationOptions"),
        "scanning": ("same_grid_noise_free", "scan", "scan_analytic"),
        "visit": ("SimulatedVisit", "simulate_visit"),
        "visits": ("SimulatedVisits", "machine_acquisition", "make_visits"),
    },
)
