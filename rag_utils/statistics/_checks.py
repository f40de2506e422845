"""A check that the functions here share."""


def share(name: str, value: float) -> float:
    """The value itself, or ValueError when it is no number from 0 to 1 (95 for 0.95, say)."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}: must lie between 0 and 1")
    return value
