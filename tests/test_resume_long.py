"""Fifty kills of a training on IDX files, fifty on a folder of pictures with augmentation, and twelve on MNIST."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import kills

kills.main(50, mnist=12)
