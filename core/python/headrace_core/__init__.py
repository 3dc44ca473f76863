"""Headrace's native core: shards and their listeners, a metadata replica, the codec, a client and a load generator.

The stub `__init__.pyi` documents every name.
"""

from headrace_core.headrace_core import *  # noqa: F403
