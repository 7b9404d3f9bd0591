"""python -m coppice: the command coppice."""

from ._program import main

main()
