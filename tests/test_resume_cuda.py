"""A few kills of trainings on a GPU, or as many as the argument says; bench/gpu/check.sh --kills does many."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import kills

kills.on_gpu(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
