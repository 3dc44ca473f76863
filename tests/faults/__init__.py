"""What must survive kills, cuts and damage."""
