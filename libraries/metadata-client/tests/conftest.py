import sys
from pathlib import Path

# The tests share replicas; in this import mode a test directory is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))
