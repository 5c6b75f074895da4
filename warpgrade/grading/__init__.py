"""The seam with nbgrader: whichever way autograding is started, our Judge decides and the marks are the same.

`configure(c)` is all that `nbgrader_config.py` calls. `nbgrader autograde`, formgrader's button and `warpgrade grade`
then run the same converter (`autograde.JudgedAutograde`) and the same preprocessors:

    submitted/ -> read as data -> Normalise -> SanitiseOutputs -> nbgrader's own overwriting -> autograded/
               -> JudgeSubmission (the Judge, in its sandboxes) -> RecordVerdicts -> gradebook.db

Nothing of a student's runs in this process.
"""

from __future__ import annotations

from typing import Any

SANITIZE_PREPROCESSORS = [
    "warpgrade.grading.normalise.Normalise",
    "warpgrade.grading.sanitise.SanitiseOutputs",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# nbgrader checks the cells' metadata here once more. They are those just written: only outputs change below, and a
# banner without nbgrader metadata; the check is a tenth of the time that recording takes.
AUTOGRADE_PREPROCESSORS = [
    "warpgrade.grading.preprocessors.JudgeSubmission",
    "warpgrade.grading.preprocessors.RecordVerdicts",
    "nbgrader.preprocessors.AssignLatePenalties",
]
RELEASE_PREPROCESSORS = [
    "warpgrade.grading.release.CheckDeclaration",
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.LockCells",
    "nbgrader.preprocessors.ClearSolutions",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
    "warpgrade.grading.release.GuardRelease",
]
FEEDBACK_PREPROCESSORS = [
    "nbgrader.preprocessors.GetGrades",
    "warpgrade.grading.preprocessors.HideHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]


def configure(c: Any) -> None:
    """Point nbgrader at the Judge. Call it once from `nbgrader_config.py`, with the config object `c`.

    Beside settings it exchanges nbgrader's Autograde class for ours in this process: nbgrader aborts a student whose
    notebook cannot be read and leaves the old mark standing, and no setting reaches that. The exchanged class does as
    nbgrader's does wherever the settings below are not in force (another course in the same Jupyter server).
    """
    from warpgrade.grading.autograde import install

    c.Autograde.sanitize_preprocessors = list(SANITIZE_PREPROCESSORS)
    c.Autograde.autograde_preprocessors = list(AUTOGRADE_PREPROCESSORS)
    c.GenerateAssignment.preprocessors = list(RELEASE_PREPROCESSORS)
    c.GenerateFeedback.preprocessors = list(FEEDBACK_PREPROCESSORS)
    # Markdown of students (and comments) is cleaned after rendering, in formgrader and in feedback alike.
    c.TemplateExporter.filters = {"markdown2html": "warpgrade.grading.sanitise.markdown_filter"}
    install()
