"""Fifty kills of a training on IDX files, and fifty on a folder of pictures with augmentation."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import kills

kills.main(50)
