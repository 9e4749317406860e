"""What is done with a case of change detection beyond the defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from duotomo.methods import Study, with_tissue_behind


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What is done with a case beyond the defaults.

    behind_mm: of voxels behind the detector's edge. blind_mm: of the prior visit's detector, from that edge
    on, whose rays get no weight. beside: whether the other methods are scored, too. volumes: folder that
    keeps the visits' own reconstructions.
    """

    behind_mm: float = 0.0
    blind_mm: float = 0.0
    beside: bool = True
    volumes: Path | None = None

    def of(self, study: Study) -> Study:
        """Return the study that is run."""
        if self.behind_mm:
            study = with_tissue_behind(study, self.behind_mm)
        return blinded(study, self.blind_mm) if self.blind_mm else study


USUAL = Treatment()


def blinded(study: Study, blind_mm: float) -> Study:
    """Return a study whose prior rays have no weight within some mm of the detector's chest-wall edge."""
    prior = study.visits[1]
    assert prior.weights is not None
    weights = prior.weights.clone()
    weights[:, : round(blind_mm / prior.acquisition.pixel_spacing_mm[0])] = 0.0
    return replace(study, visits=(study.reference, replace(prior, weights=weights)))
