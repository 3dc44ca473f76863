"""Import cycles of a graph of modules, of Python or of Rust."""

import grimp


def cycles(graph: grimp.ImportGraph) -> list[set[str]]:
    """Return the sets of modules that import each other, directly or through others."""
    upstream = {module: graph.find_upstream_modules(module) for module in graph.modules}
    found = {
        frozenset({module} | {other for other in needed if module in upstream[other]})
        for module, needed in upstream.items()
    }
    return [set(modules) for modules in found if len(modules) > 1]
