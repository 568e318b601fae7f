"""Settings that follow config.toml while the worker runs."""

from __future__ import annotations

from dataclasses import replace

from backstory.settings import NAMES, ConfigWatch, Settings, is_at_once


class LiveSettings:
    """The settings of a part of the worker. Those that apply at once follow config.toml, the others do not change."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._watch = settings, ConfigWatch(settings.paths.config)

    def __call__(self) -> Settings:
        if new := self._watch.changed():
            values = {name: getattr(new, name) for name in NAMES if is_at_once(name)}
            self._settings = replace(self._settings, **values)
        return self._settings
