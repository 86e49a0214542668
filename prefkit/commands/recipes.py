"""`prefkit recipes`: the loops there are."""

from __future__ import annotations

from typing import Any

from prefkit.commands.arguments import Parser

ABOUT = "List the loops there are, what each takes in each profile, and which leads to which."
EXAMPLE = "prefkit recipes"


def arguments(parser: Parser) -> None:
    """It takes none."""


def run(options: Any) -> int:
    from prefkit import recipe
    from prefkit.commands.terminal import fields
    from prefkit.resources import recipe_paths

    edges = recipe.graph()
    for number, (name, path) in enumerate(recipe_paths().items()):
        if number:
            print()
        loaded = recipe.load(path)
        profiles = [recipe.load(path, profile=profile) for profile in recipe.profiles_of(path)]
        fields(
            [
                (name, loaded.title),
                ("", loaded.description),
                ("", "profiles: " + "; ".join(_profile_words(profile) for profile in profiles)),
                ("", f"leads to: {', '.join(edges[name])}" if edges[name] else "leads to no other loop yet"),
            ]
        )
    return 0


def _profile_words(loaded: Any) -> str:
    expected = loaded.expected
    return f"{loaded.profile} ({expected.minutes:g} minutes, {expected.memory_gb:g} GB)" if expected else loaded.profile
