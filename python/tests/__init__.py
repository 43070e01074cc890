"""Tests of leat: "python3 -m unittest" in the directory above, or python_test.go, runs them."""
