"""``suggest``, by the name under which the build of the native part imports it."""

from .settings.variables import suggest as suggest
