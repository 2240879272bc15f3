"""Writes the grids of ggml's types IQ1 to IQ3 for package weights, as the Python package gguf
has them: an int8 for each number of each vector.

    python tools/golden/ggml_grids.py weights/blocks_grids.bin
"""

import sys

import numpy as np
from gguf import quants

with open(sys.argv[1], "wb") as out:
    for kind in (quants.IQ2_XXS, quants.IQ2_XS, quants.IQ2_S, quants.IQ3_XXS, quants.IQ3_S, quants.IQ1_S):
        kind.init_grid()
        out.write(np.ascontiguousarray(kind.grid, dtype=np.float32).astype(np.int8).tobytes())
