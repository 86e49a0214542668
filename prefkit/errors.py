"""The errors a user can mend. Each message says what was wrong, where, and what to do; the command line prints it without a traceback."""

from __future__ import annotations


class PrefkitError(Exception):
    """Base of every error that a user can mend."""


class RecipeError(PrefkitError):
    """A recipe or an override that cannot be read: unknown key, wrong type, impossible value."""


class DataError(PrefkitError):
    """Questions, patterns or rows that cannot be read or that break a rule."""


class DatabaseError(PrefkitError):
    """A file that is no database, or a database without tables."""


class ModelError(PrefkitError):
    """A model or adapter that cannot be loaded."""


class RunError(PrefkitError):
    """A run folder that is missing, locked, or does not fit the recipe."""


class GuardError(PrefkitError):
    """Training that would fail silently: nothing trainable, the wrong adapter, a reference that is not the start."""


class IsolationUnavailable(PrefkitError):
    """The isolation that a verifier needs cannot be had on this machine."""
