"""Made-up streams whose effect is known, to see what a selection finds and what it lets in."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def simulated_evaluate(
    effects: Mapping[str, tuple[float, float]], *, n: int = 1_000, base: float = 0.8, seed: int = 0
) -> Callable[[Sequence[str]], np.ndarray]:
    """An `evaluate` over n made-up questions, of which about the share `base` is hit without any stream.

    Args:
        effects: For each stream the shares of all questions that it wins and loses by itself, on average; equal shares
            make a stream of pure noise. It wins only what is missed and loses only what is hit, whatever else is there.
        n: Questions.
        base: Between 0 and 1.
        seed: Of the draw.

    Raises:
        ValueError: A stream would win more than is missed, or lose more than is hit.
    """
    rng = np.random.default_rng(seed)
    hit = rng.random(n) < base
    turned = {}
    for stream, (won, lost) in effects.items():
        if not (0 <= won <= 1 - base and 0 <= lost <= base):
            raise ValueError(f"{stream!r} wins {won} and loses {lost}: at most {1 - base:g} is missed and {base:g} hit")
        turned[stream] = rng.random(n) < np.where(hit, lost / base, won / (1 - base))

    def evaluate(streams: Sequence[str]) -> np.ndarray:
        return hit ^ (np.sum([turned[stream] for stream in streams], axis=0) > 0)

    return evaluate
