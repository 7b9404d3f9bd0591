"""The peer of `launcher serve` in make bench-serve: BentoML with LightGBM, which gets encoded numbers (COPPICE_TREES)."""

import os

import bentoml
import lightgbm
import numpy as np


@bentoml.service(workers=1)
class Trees:
    def __init__(self):
        self.booster = lightgbm.Booster(model_file=os.environ["COPPICE_TREES"])

    @bentoml.api
    def predict(self, rows: list[list[float]]) -> list[float]:
        return self.booster.predict(np.array(rows), num_threads=1).tolist()
