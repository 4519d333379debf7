"""A few kills; test_resume_long.py does many."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import kills

kills.main(6)
