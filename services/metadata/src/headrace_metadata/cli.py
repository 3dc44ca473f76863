"""The command line: ``python -m headrace_metadata repair FOLDER [--accept-loss]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from headrace_metadata.errors import MetadataError
from headrace_metadata.repair import accept_loss, diagnose


def run(arguments: list[str]) -> int:
    """Run a command and return its exit status: 0 done, 1 damage that needs a decision, 2 failure."""
    parser = argparse.ArgumentParser(prog="python -m headrace_metadata", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    repair = commands.add_parser("repair", help="say what is damaged in a state folder and what a repair would cost")
    repair.add_argument("folder", type=Path, help="where state.messages is")
    repair.add_argument(
        "--accept-loss", action="store_true", help="repair it, giving up all commands behind the damage"
    )
    options = parser.parse_args(arguments)

    try:
        diagnosis = (accept_loss if options.accept_loss else diagnose)(options.folder)
    except (MetadataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if diagnosis.damage is None:
        sys.stdout.write(f"Nothing is damaged; the last command is {diagnosis.kept_op}.\n")
        return 0
    reason = f"{diagnosis.damage.path} is damaged at byte {diagnosis.damage.position_bytes}: {diagnosis.damage.reason}."
    if diagnosis.lost_op > diagnosis.kept_op:
        cost = f"commands {diagnosis.kept_op + 1} to {diagnosis.lost_op}, and later ones if there were any"
    else:
        cost = f"commands after {diagnosis.kept_op}, if there were any"
    if options.accept_loss:
        sys.stdout.write(f"{reason}\nRepaired. Given up: {cost}.\nThe old journal is now state.messages.damaged.\n")
        return 0
    sys.stdout.write(f"{reason}\nA repair (--accept-loss) gives up {cost}.\n")
    return 1
