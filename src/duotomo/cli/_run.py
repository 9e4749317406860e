"""One computation of a command: its folder, and what it leaves there and says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._change import change_json, show_change
from duotomo.cli._errors import DONE, NOT_TRUSTED, as_options
from duotomo.cli._memory import GB, available_bytes, check_memory, fits
from duotomo.cli._options import AUTO, Computing, Deidentifying, Talk
from duotomo.cli._settings_file import load_settings
from duotomo.io.agreement import Agreement, Allowed
from duotomo.io.result_format import PAGE, PICTURE, SETTINGS, ResultFormat
from duotomo.io.settings_text import settings_text

if TYPE_CHECKING:
    from duotomo.change import Change
    from duotomo.geometry import VolumeGrid
    from duotomo.io import CheckpointFile
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.run_fingerprint import RunFingerprint
    from duotomo.methods import Result, Study, UncertaintySummary

PATHS = ("inputs", "scan", "reference", "moving", "geometry", "deidentify_key")
"""Options that are paths: a file's name may be a patient's."""

NOT_KEPT = (
    *("settings", "out", "resume", "quiet", "as_json", "log", "keep_paths", "help", "dry_run"),
    *(one.name for one in fields(Allowed)),
)
"""Options that say how to run, not what to compute; and permissions, which are of these inputs alone."""


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be computed and what it needs; write nothing.")
]


@dataclass(frozen=True, kw_only=True)
class Saving(Deidentifying):
    """What to write, and where."""

    out: Annotated[Path, typer.Option(help="Folder to write to; nothing is written elsewhere.")]
    formats: Annotated[
        tuple[ResultFormat, ...],
        typer.Option("--format", help="Write volumes in this format too; may be given twice."),
    ] = ()
    dicom: Annotated[
        bool, typer.Option("--dicom", help="The same as --format dicom: volumes and registrations.")
    ] = False
    keep_paths: Annotated[
        bool,
        typer.Option(
            "--keep-paths", help="Write the paths of the inputs into settings.toml, to repeat the run."
        ),
    ] = False
    max_memory: Annotated[float | None, typer.Option(min=0, help="Most memory to use, in GB.")] = None
    settings: Annotated[
        Path | None,
        typer.Option(
            is_eager=True,
            callback=load_settings,
            help="A TOML file with values for options; the command line wins.",
        ),
    ] = None


class Run:
    """Computes in a folder that is held for this run alone, and leaves a result there."""

    def __init__(self, context: typer.Context, saving: Saving, computing: Computing, talk: Talk) -> None:
        """Raise unless there is what the run needs: it is missed before the computation, not after."""
        from duotomo.errors import DuotomoError
        from duotomo.io.result_files import check_libraries

        self.out, self._talk, self._saving = saving.out, talk, saving
        self.formats = (*saving.formats, *((ResultFormat.DICOM,) if saving.dicom else ()))
        self._context, self._command = context, str(context.command.name)
        self._pseudonyms = saving.pseudonyms()
        if saving.deidentify and saving.keep_paths:
            raise DuotomoError(
                "expected --deidentify or --keep-paths; got both, and a file's name may be a patient's. "
                "Leave one out."
            )
        self.device = computing.prepare(talk)
        self._automatic = computing.device == AUTO
        check_libraries(self.formats)

    @property
    def first_device(self) -> str:
        """Where data are put until the memory that is needed is known."""
        return "cpu" if self._automatic else self.device

    def place(self, needed: int) -> str:
        """Return the device, now that the bytes are known; say it where it was left to the program."""
        if self._automatic and self.device != "cpu":
            import torch

            name, available = torch.cuda.get_device_name(), available_bytes(self.device)
            if needed > available:
                self.device = "cpu"
                words = (
                    f"cpu: the run needs {needed / GB:.3g} GB, and {name} has {available / GB:.3g} GB left"
                )
            else:
                words = f"{self.device}, {name}"
            self._talk.progress(f"Device {words}")
        return self.device

    def note(self, text: str) -> None:
        """Say what the library remarks, in the words of the command line."""
        self._talk.progress(as_options(text, self._context))

    def warn(self, agreement: Agreement) -> None:
        """Say in what inputs do not belong together although that was allowed, even with --quiet."""
        for conflict in agreement.conflicts:
            self._talk.warn(f"Warning: {conflict.words}.", red=True)

    @contextmanager
    def folder(self) -> Iterator[None]:
        """Hold the folder, which is made if it is not there; raise if it cannot take a result."""
        from duotomo.io.durable import held
        from duotomo.io.result_folder import check_place

        with held(self._command, self.out, choice="`out`"):
            check_place(self._command, self.out)
            yield

    def finished(self, made_by: RunFingerprint, checkpoint: CheckpointFile) -> int | None:
        """Return the exit code if the folder holds the result of this computation, and say so; else None.

        Raise if it is that of another one, and no checkpoint is there to go on from.
        """
        from duotomo.errors import DuotomoError
        from duotomo.io import read_result
        from duotomo.io.result_index import has_result

        if not has_result(self.out):
            return None
        saved = read_result(self.out)
        other = made_by.differing(str(saved.settings.get("fingerprint", "")))
        if other and Path(checkpoint.path).exists():
            return None
        if other:
            raise DuotomoError(
                f"expected an unfinished run of this computation in {self.out}; got the result of one with "
                f"another {' and another '.join(other)}. Leave out --resume to replace it, or choose "
                f"another folder."
            )
        for note in saved.notes:
            self._talk.progress(f"Note: {note}")
        if self._context.params.get("uncertainty") and not saved.saved_uncertainties:
            self._talk.progress("Note: it does not say how sure the motion is; that is not computed now.")
        if saved.change is None and (self._command == "change" or self._context.params.get("change")):
            self._talk.progress("Note: it does not say what changed; that is not computed now.")
        self._talk.say(
            f"Finished already: {self.out} holds the result. Leave out --resume to compute it again."
        )
        if saved.change is not None:
            show_change(self._talk, saved.change)
        return self._conclude(saved, saved.quality, checkpoint, saved.change)

    def begin(self, plan: Sequence[str], needed: int, *, remedy: str = "use larger voxels") -> None:
        """Say what is about to be computed; raise if the bytes that it needs are not there."""
        for line in plan:
            self._talk.progress(line)
        most_gb = self._saving.max_memory
        check_memory(needed, device=self.device, most_gb=most_gb, remedy=remedy, talk=self._talk)

    def show_plan(self, plan: Sequence[str], needed: int, *, work: float) -> None:
        """Say what would be computed, and what it needs. work: steps times voxels times views, at most."""
        for line in plan:
            self._talk.say(line)
        self._talk.say(f"Memory: about {needed / GB:.3g} GB needed, beside the program itself")
        self._talk.finish({"status": "planned", "memory_bytes": needed, "work": work})

    def has_memory(self, needed: int) -> bool:
        """Return whether so many bytes are there, and allowed by --max-memory."""
        return fits(needed, device=self.device, most_gb=self._saving.max_memory)

    def finish(
        self,
        result: Result,
        *,
        quality: Mapping[str, Any],
        settings: Mapping[str, Any],
        study: Study | None = None,
        moving_grids: Sequence[VolumeGrid] | None = None,
        identities: Sequence[Identity | None] | None = None,
        agreement: Agreement | None = None,
        checkpoint: CheckpointFile,
        change: Change | None = None,
        summaries: Sequence[UncertaintySummary] | None = None,
    ) -> int:
        """Write the result and the page, say what came out, and return the exit code.

        agreement: what was compared between the inputs. checkpoint: of the state in which the method ended,
        which is not needed then unless it diverged. change: what changed between the visits, if computed.
        summaries: how sure the motions are, if it is known already.
        """
        from duotomo.io import write_result
        from duotomo.report.page_words import quality_checks

        talk, options = self._talk, _options(self._context, keep_paths=False)
        lines = quality_checks(
            {
                "status": result.status.value,
                "reason": result.reason,
                "quality": quality,
                "motions": [{"model": type(motion.transform).__name__} for motion in result.motions],
            }
        )
        quality = self._with_options({**quality, "checks": [line.to_dict() for line in lines]})
        for name, text in _summary(result, quality):
            talk.say(f"{name:<24}{text}")
        if change is not None:
            show_change(talk, change)
        written = write_result(
            self.out,
            result,
            study=study,
            moving_grids=moving_grids,
            settings={
                "command": self._command,
                **settings,
                **({} if agreement is None else {"agreement": agreement.to_dict()}),
                "device": self.device,
                "options": options,
            },
            quality=quality,
            formats=self.formats,
            identities=self._named(identities, len(result.motions) + 1),
            displacements=True,
            change=change,
            summaries=summaries,
            beside=lambda draft: self._beside(draft, result),
        )
        talk.wrote(written)
        return self._conclude(result, quality, checkpoint, change)

    def _with_options(self, quality: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of a result, with options in remedies where the library has parameters."""

        def told(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            return [{**row, "remedy": as_options(row["remedy"], self._context)} for row in rows]

        said = {**quality, "checks": told(quality["checks"])}
        if trust := quality.get("trust"):
            said["trust"] = {**trust, "checks": told(trust["checks"])}
        return said

    def _conclude(
        self,
        result: Result,
        quality: Mapping[str, Any],
        checkpoint: CheckpointFile,
        change: Change | None,
    ) -> int:
        """End with what came out, as JSON if that was asked for, and return the exit code."""
        from duotomo.solvers import Status

        page, kept = self.out / PAGE, Path(checkpoint.path)
        trust = quality.get("trust", {})
        failed = result.status in (Status.DIVERGED, Status.BREAKDOWN)
        trusted = trust.get("trusted", True) and not failed
        self._talk.finish(
            {
                "status": result.status.value,
                "reason": result.reason,
                "trusted": trusted,
                "out": str(self.out),
                "page": str(page) if page.exists() else None,
                "applications": result.applications,
                "seconds": result.seconds,
                "objective": result.history[-1].objective if result.history else None,
                "quality": quality,
                **({} if change is None else {"change": change_json(change)}),
            }
        )
        if result.status is Status.DIVERGED:
            self._talk.progress(f"Diverged: {result.reason}")
            state = f", the state in {kept}" if kept.exists() else ""
            self._talk.progress(f"The last good volume and motion are in {self.out}{state}.")
        else:
            checkpoint.remove()
        if trusted:
            return DONE
        # Last of all, and even with --quiet: nobody should miss it.
        reason = f"The run did not converge: {result.reason}" if failed and not trust else trust["reason"]
        self._talk.warn(f"Warning: do not trust this result. {reason}", red=True)
        for remedy in _remedies(quality):
            self._talk.warn(f"  What to do: {remedy}", red=True)
        return NOT_TRUSTED

    def _named(
        self, identities: Sequence[Identity | None] | None, n_visits: int
    ) -> Sequence[Identity | None] | None:
        """Return by whom DICOM files are named: the patients, or their pseudonyms."""
        if self._pseudonyms is None:
            return identities
        from duotomo.io.dicom.identity import Identity

        known = identities or [None] * n_visits
        return [(one or Identity.anonymous()).deidentified(self._pseudonyms) for one in known]

    def _beside(self, out: Path, result: Result) -> dict[str, str]:
        """Write the picture, the settings and, if it can be made, the page; return their kinds."""
        import duotomo
        from duotomo.errors import DuotomoError
        from duotomo.io.durable import durable
        from duotomo.io.paths import FileError
        from duotomo.report import three_views
        from duotomo.report.page import page_of

        where, kinds = self._command, {PICTURE: "picture", SETTINGS: "settings"}
        options = _options(self._context, keep_paths=self._saving.keep_paths)
        with durable(where, out / PICTURE) as fresh:
            three_views(fresh, columns={"reconstruction": result.volume}, grid=result.grid, unit="1/mm")
        inputs = "" if any(name in options for name in PATHS) else " THE SAME INPUTS"
        again = f"duotomo {where}{inputs} --settings {SETTINGS} --out ANOTHER_FOLDER"
        remarks = [f"Written by duotomo {duotomo.__version__}. Repeat it with", again]
        with durable(where, out / SETTINGS) as fresh:
            fresh.write_text(settings_text(where, options, remarks=remarks), encoding="utf-8")
        try:
            text = page_of(out)
        except FileError:
            raise
        except DuotomoError as error:
            # Without its viewer, the package makes results all the same.
            self._talk.progress(f"No page was made: {error}")
            return kinds
        with durable(where, out / PAGE) as fresh:
            fresh.write_text(text, encoding="utf-8")
        return {**kinds, PAGE: "page"}


def grid_words(grid: VolumeGrid) -> str:
    """Return the shape and the voxels of a grid, for people."""
    z, y, x = grid.spacing_mm
    return f"{grid.shape} (z, y, x), voxels of {z:g} x {y:g} x {x:g} mm"


def _summary(result: Result, quality: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give what a person reads at the end; what to do where it is not trusted comes last of all."""
    from duotomo.report.page_words import NOTE

    yield "status", f"{result.status.value}: {result.reason}"
    yield "steps", str(len(result.history))
    if result.applications:
        yield "projector applications", str(result.applications)
    yield "seconds of computing", f"{result.seconds:.1f}"
    if result.history:
        yield "objective", f"{result.history[-1].objective:.6g}"
    moved = zip(quality["mean_displacement_mm"], quality["largest_displacement_mm"], strict=True)
    for number, (mean_mm, largest_mm) in enumerate(moved, start=2):
        yield f"motion of visit {number}", f"{mean_mm:.2f} mm on average, at most {largest_mm:.2f} mm"
    for number, known in enumerate(quality.get("uncertainty", ()), start=2):
        yield f"how sure of visit {number}", known["words"]
    trust = quality.get("trust")
    if trust:
        yield "trusted", "yes" if trust["trusted"] else "NO"
    for check in quality["checks"]:
        if check["verdict"] != NOTE:
            yield f"check: {check['verdict']}", check["words"]
            if check["remedy"] and (trust is None or trust["trusted"]):
                yield "", f"What to do: {check['remedy']}"


def _remedies(quality: Mapping[str, Any]) -> list[str]:
    """Return what to do about the checks that failed, once each; quality may be of an older version."""
    rows = quality.get("checks") or quality.get("trust", {}).get("checks", ())
    return list(dict.fromkeys(row["remedy"] for row in rows if row.get("remedy")))


def _options(context: typer.Context, *, keep_paths: bool) -> dict[str, Any]:
    """Return the command's options as they were given or taken, without paths unless they are kept."""
    left_out = NOT_KEPT if keep_paths else (*NOT_KEPT, *PATHS)
    names = [str(one.name) for one in context.command.params if one.name in context.params]
    values = {name: context.params[name] for name in names if name not in left_out}
    return {name: _plain(value) for name, value in values.items() if value not in (None, (), [])}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value.resolve())
    return value if isinstance(value, (bool, int, float)) else str(value)
