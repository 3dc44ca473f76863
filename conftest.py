"""Settings of the property tests of the whole repository."""

from hypothesis import settings

# On a machine that says that it is CI, Hypothesis would try the same examples in every run. They differ in each
# run here, too: the seed is printed by `make test`, which takes it again (TEST_SEED).
settings.register_profile("fresh-examples", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fresh-examples")
