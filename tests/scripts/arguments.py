"""Arguments, a module beside the script, and standard input."""

import argparse
import sys

from package.model import make
from package.train import train

parser = argparse.ArgumentParser()
parser.add_argument("units", type=int, nargs="*")
parser.add_argument("--epochs", "-e", type=int, required=True)
parser.add_argument("--headless", action="store_true")
args = parser.parse_args()
print(args, sys.argv[0], sys.stdin.read())
train(make(args.units), args.epochs)
