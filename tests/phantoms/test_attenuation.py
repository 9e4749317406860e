"""Laws of the attenuation table: its knots, its order, its ends, and another table beside it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError
from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM, Tissue, attenuation_per_mm


@pytest.mark.parametrize(
    ("tissue", "energy_kev", "per_cm"),
    [
        (Tissue.ADIPOSE, 18.0, 0.6347),
        (Tissue.GLANDULAR, 20.0, 0.7673),
        (Tissue.NIPPLE, 22.0, 0.6845),
        (Tissue.LOBULE, 25.0, 0.5424),
        (Tissue.CALCIFICATION, 30.0, 2.696),
    ],
)
def test_at_the_tables_energies_it_is_the_table(tissue: Tissue, energy_kev: float, per_cm: float) -> None:
    assert attenuation_per_mm(tissue, energy_kev=energy_kev) == pytest.approx(per_cm / 10, rel=1e-12)


@pytest.mark.parametrize("tissue", list(Tissue))
def test_it_falls_with_energy_between_the_photoelectric_law_and_none(tissue: Tissue) -> None:
    # Photoelectric absorption falls as energy^-3, scattering hardly at all.
    energies = [18.0 + 0.5 * k for k in range(25)]
    values = [attenuation_per_mm(tissue, energy_kev=energy) for energy in energies]
    for (low, high), (before, after) in zip(pairwise(energies), pairwise(values), strict=True):
        assert (low / high) ** 3.2 < after / before < 1


@given(tissue=st.sampled_from(Tissue), share=st.floats(0, 1))
def test_between_two_energies_it_is_a_power_law(tissue: Tissue, share: float) -> None:
    at_20, at_22 = (attenuation_per_mm(tissue, energy_kev=energy) for energy in (20.0, 22.0))
    between = attenuation_per_mm(tissue, energy_kev=min(20.0 * 1.1**share, 22.0))
    assert between == pytest.approx(at_20 ** (1 - share) * at_22**share, rel=1e-9)


@pytest.mark.parametrize("energy_kev", [18.0, 19.0, 23.5, 30.0])
def test_fat_is_darkest_and_calcium_brightest(energy_kev: float) -> None:
    by_tissue = {tissue: attenuation_per_mm(tissue, energy_kev=energy_kev) for tissue in Tissue}
    in_the_breast = {tissue: value for tissue, value in by_tissue.items() if tissue is not Tissue.PADDLE}
    assert min(in_the_breast, key=in_the_breast.__getitem__) is Tissue.ADIPOSE
    assert max(in_the_breast, key=in_the_breast.__getitem__) is Tissue.CALCIFICATION
    # A mass is the denser glandular tissue: 1.06 against 1.035 g/cm^3.
    assert by_tissue[Tissue.MASS] / by_tissue[Tissue.GLANDULAR] == pytest.approx(1.06 / 1.035, rel=1e-3)


@pytest.mark.parametrize("tissue", list(JOHNS_YAFFE_20_KEV_PER_MM))
def test_two_tables_agree(tissue: Tissue) -> None:
    measured = JOHNS_YAFFE_20_KEV_PER_MM[tissue]
    assert attenuation_per_mm(tissue, energy_kev=20.0) == pytest.approx(measured, rel=0.15)


def test_the_measured_table_cannot_be_written_to() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        JOHNS_YAFFE_20_KEV_PER_MM[Tissue.SKIN] = 1.0  # type: ignore[index]


@pytest.mark.parametrize("energy_kev", [17.9, 30.1, 0.02, float("nan")])
def test_energy_beyond_the_table_is_refused(energy_kev: float) -> None:
    with pytest.raises(
        DuotomoError, match=r"attenuation_per_mm: expected 18 <= energy_kev <= 30; got .*table ends"
    ):
        attenuation_per_mm(Tissue.SKIN, energy_kev=energy_kev)
