"""The job `compact`: fewer and larger files, old messages out of an archive, and what nobody needs off the disk.

Neighbouring files of one partition and day are merged by tasks of Spark; the driver replaces them in the archive's log,
all of a round in one step. Whoever reads the archive as it was finds its files for a while.
"""
