import argparse

from . import model as models
from .train import train

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--units", type=int, nargs="+", default=[8])
if __name__ == "__main__":
    args = parser.parse_args()
    print(args, __name__, __package__)
    train(models.make(args.units), args.epochs)
