"""Run engines side by side over a set of images: every engine sees the same preprocessed array."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.errors import CacheError, DataError, UsageError
from tilewright_bench.accuracy.labels import chosen_offset
from tilewright_bench.accuracy.partial import Line, PartialResults, RunKey
from tilewright_bench.accuracy.scores import Probabilities, best, class_scores, disagreement
from tilewright_bench.engines.base import Array, EngineSpec, Session, Settings
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_datasets.images import ImageSet, LabelledImage, decode
from tilewright_datasets.preprocess import Preprocess, preprocess

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One model over one set. `kept` is how many best classes are kept of each image; offset None: ask the
    model.
    """

    model: ModelFile
    engines: Sequence[EngineSpec]
    settings: Settings
    images: ImageSet
    preprocess: Preprocess
    kept: int
    label_offset: int | None = None


@dataclass
class Contender:
    """One engine of a task; `error` says why it has no figures."""

    spec: EngineSpec
    session: Session | None = None
    version: str = ""
    error: str | None = None

    def failed(self, error: Exception) -> None:
        log.debug("%s", self.spec.text, exc_info=error)
        self.session = None
        self.error = f"{type(error).__name__}: {error}"


@dataclass
class Outcome:
    """What came out: a line per image that decoded, in the order of the set."""

    contenders: list[Contender]
    lines: list[Line] = field(default_factory=list)
    undecodable: list[str] = field(default_factory=list)
    label_offset: int = 0
    interrupted: bool = False


def run_task(task: Task, cache_dir: str | None, reporter: Reporter) -> Outcome:
    """Classify every image with every engine.

    An engine that fails gets an `error`, an image that does not decode is counted and named; the run goes on.
    On Ctrl-C the images done so far are kept on disk and taken up by the next run of the same task. Raises
    UsageError when the model takes no such images, DataError when no image decodes.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-accuracy-") as folder:
        contenders = [_load(spec, task, Path(folder), reporter) for spec in task.engines]
        outcome = Outcome(contenders)
        with PartialResults(_key(task, contenders), cache_dir) as partial:
            reporter.stage(f"{task.model.name} on {task.images.name}", len(task.images))
            try:
                for count, image in enumerate(task.images):
                    _add(image, task, outcome, partial)
                    reporter.advance(count + 1)
                    if outcome.undecodable and outcome.undecodable[-1] == image.name:
                        reporter.note(f"warning: {image.name} does not decode and is left out")
            except KeyboardInterrupt:
                outcome.interrupted = True
            else:
                partial.finish()
    if not outcome.lines and not outcome.interrupted:
        raise DataError(f"dataset {task.images.name}: none of its {len(task.images)} images decodes")
    return outcome


def _add(image: LabelledImage, task: Task, outcome: Outcome, partial: PartialResults) -> None:
    """Append the line of one image: from the partial results, or by running the engines."""
    line = partial.done.get(image.name)
    if line is None or not _is_whole(line, outcome.contenders):
        try:
            picture = decode(image)
        except DataError:
            outcome.undecodable.append(image.name)
            return
        scores = _classify(preprocess(picture, task.preprocess), outcome.contenders)
        line = _line(image, scores, task.kept)
    if not outcome.lines:
        # Before a long run, not after it: an output width that leaves the offset open stops here.
        outcome.label_offset = chosen_offset(line["classes"], task.label_offset, task.preprocess.label_offset)
    if image.name not in partial.done:
        partial.add(line)
    outcome.lines.append(line)


def _load(spec: EngineSpec, task: Task, folder: Path, reporter: Reporter) -> Contender:
    engine = engine_of(spec)
    settings = task.settings
    if settings.precision not in engine.classes:  # it is there to be compared with, and its row says so
        settings = replace(settings, precision="fp32")
    contender = Contender(spec, version=engine.availability().version)
    reporter.stage(f"{task.model.name}: {spec.text}: load")
    try:
        prepared = engine.prepare(task.model.path, spec, settings, folder)
        contender.session = engine.load(prepared, spec, settings)
    except CacheError:
        raise  # no row could be measured
    except Exception as error:  # whatever an engine raises belongs to its row
        contender.failed(error)
        return contender
    _check_input(contender.session, task)
    return contender


def _check_input(session: Session, task: Task) -> None:
    crop = task.preprocess.crop
    wanted = (1, 3, crop, crop) if task.preprocess.layout == "NCHW" else (1, crop, crop, 3)
    shapes = {tensor.name: tuple(tensor.shape) for tensor in session.inputs}
    if list(shapes.values()) != [wanted]:
        raise UsageError(
            f"model '{task.model.name}' takes {shapes}, its preprocessing makes one input of shape {wanted}; "
            "choose another with --preprocess, or bind dimensions with --dim"
        )


def _classify(array: Array, contenders: Sequence[Contender]) -> dict[int, Probabilities]:
    """Probabilities by contender; one that raises is out from here on."""
    scores: dict[int, Probabilities] = {}
    for index, contender in enumerate(contenders):
        if contender.session is None:
            continue
        try:
            outputs = contender.session.run({contender.session.inputs[0].name: array})
            scores[index] = class_scores(outputs)
        except Exception as error:  # as in _load
            contender.failed(error)
    if not scores:
        reasons = "; ".join(f"{contender.spec.text}: {contender.error}" for contender in contenders)
        raise UsageError(f"no engine is left to run: {reasons}")
    return scores


def _line(image: LabelledImage, scores: Mapping[int, Probabilities], kept: int) -> Line:
    base = min(scores)
    found = {index: disagreement(scores[base], scores[index]) for index in scores if index != base}
    return {
        "image": image.name,
        "label": image.label,
        "classes": int(scores[base].size),
        "base": base,
        "tops": {str(index): best(row, kept) for index, row in scores.items()},
        "disagreements": {str(index): asdict(item) for index, item in found.items() if item},
    }


def _is_whole(line: Line, contenders: Sequence[Contender]) -> bool:
    return all(str(index) in line["tops"] for index, one in enumerate(contenders) if one.session is not None)


def _key(task: Task, contenders: Sequence[Contender]) -> RunKey:
    settings: dict[str, Any] = task.settings.as_json()
    return RunKey(
        task.model.sha256,
        [f"{contender.spec.text} {contender.version}" for contender in contenders],
        f"{settings} {task.kept}",
        str(Path(task.images.name).resolve()),
        repr(task.preprocess),
    )
