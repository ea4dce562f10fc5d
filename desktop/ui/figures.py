"""How good a model is, in words that fit its task: the figure that tells most, and the further ones."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from desktop.ui.formats import figure, number, percent


def tr(text: str) -> str:
    """Translate a word that belongs to figures, not to a widget."""
    return QCoreApplication.translate("figures", text)


def score(accuracy: float | None, metrics: dict[str, float]) -> str:
    """The figure that tells most: a mean error, a perplexity, else the share that is right; a dash for none."""
    first = next((metrics[name] for name in ("mae", "perplexity") if name in metrics), None)
    return percent(accuracy) if first is None else figure(first)


def meaning(metrics: dict[str, float], samples: int = 0) -> str:
    """What `score` is, to stand after it: “right on 360 test samples, F1 0.943”; without a number for 0 samples."""
    words = {"mae": tr("mean error"), "perplexity": tr("perplexity")}
    what = next((word for name, word in words.items() if name in metrics), tr("right"))
    where = tr("on {n} test samples").format(n=number(samples)) if samples else tr("on test samples")
    more = further(metrics)
    return f"{what} {where}, {more}" if more else f"{what} {where}"


def further(metrics: dict[str, float]) -> str:
    """The figures beside the one that tells most: “F1 0.943, AUC 0.981”."""
    names = {"f1": "F1", "auc": "AUC", "r2": "R²"}
    return ", ".join(f"{word} {number(metrics[name], 3)}" for name, word in names.items() if name in metrics)
