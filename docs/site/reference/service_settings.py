"""Reference of the settings of services, a page for each; `docs/configuration.md` has those of the embedded server."""

from __future__ import annotations

from typing import Final

from headrace.service_settings import SERVICES, Service
from headrace_settings import to_markdown

TITLES: Final = {
    Service.GATEWAY: ("gateway", "headrace_gateway", "gateways"),
    Service.NODE: ("partition-node", "headrace_partition_node", "partition nodes"),
    Service.METADATA: ("metadata", "headrace_metadata", "replicas of the metadata service"),
}
INTRODUCTION: Final = """\
# Settings of {title}

Made by `make generate` from the configuration model: `python -m {package} --settings` prints the same. A setting is
taken from its environment variable, then from the TOML file that `--config` names, else it has its default.
`headrace config check --service {service}` checks them without a start. Sizes, durations and addresses are written as
for the [embedded server](../configuration.md).

"""


def pages() -> dict[str, str]:
    """Return the pages by the names of their files."""
    return {
        f"settings-{name}.md": INTRODUCTION.format(title=title, package=package, service=service.value)
        + to_markdown(SERVICES[service].model, prefix=SERVICES[service].prefix)
        for service, (name, package, title) in TITLES.items()
    }
