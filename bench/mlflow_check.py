"""Read with MLflow what `launcher registry export --mlflow` has written, and predict.

    python bench/mlflow_check.py STORE RUN TABLE.csv

Prints JSON: the run's parameters, metrics, tags and datasets, as MLflow's client has them, and for the rows of the table the predictions of
mlflow.pyfunc.load_model and, of the values that the trees see, the raw scores of mlflow.lightgbm.load_model.
"""
import json
import os
import sys

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow wants to be asked twice for a store of files
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))

import mlflow  # noqa: E402
import mlflow.lightgbm  # noqa: E402
import pandas  # noqa: E402

import coppice  # noqa: E402

store, run_id, table = sys.argv[1:]
client = mlflow.MlflowClient(tracking_uri="file://" + os.path.abspath(store))
run = client.get_run(run_id)
experiment = client.get_experiment(run.info.experiment_id)
folder = run.info.artifact_uri.removeprefix("file://") + "/model"

rows = pandas.read_csv(table, dtype=str, na_filter=False)
model = mlflow.pyfunc.load_model(folder)
version = coppice.Model.load(os.path.join(folder, "version"))
booster = mlflow.lightgbm.load_model(folder)
json.dump({
    "mlflow": mlflow.__version__, "experiment": experiment.name, "name": run.info.run_name, "status": run.info.status, "params": run.data.params,
    "metrics": run.data.metrics, "tags": run.data.tags, "datasets": [d.dataset.name + "@" + d.dataset.digest for d in run.inputs.dataset_inputs],
    "found": [r.info.run_id for r in client.search_runs([experiment.experiment_id], "params.objective = 'binary'")],
    "inputs": model.metadata.get_input_schema().input_names(), "predicted": model.predict(rows).tolist(),
    "trees": booster.num_trees(), "raw": booster.predict(version.encode(rows), raw_score=True).tolist(),
    "expected_raw": version.predict(rows, raw=True).tolist(),
}, sys.stdout)
