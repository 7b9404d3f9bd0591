"""Export a version to MLflow with coppice.mlflow, read it back with MLflow, and predict.

    python bench/mlflow_check.py VERSION STORE TABLE.csv

VERSION is what coppice.mlflow.export takes, STORE a tracking URI. The version is exported twice, and becomes a version
of the registered model. Prints JSON: the run's parameters, metrics, tags and datasets, as MLflow's client has them, and
for the rows of the table the predictions of mlflow.pyfunc.load_model and, of the values that the trees see, the raw
scores of mlflow.lightgbm.load_model.
"""

import json
import os
import sys

os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))

import mlflow  # noqa: E402
import mlflow.lightgbm  # noqa: E402
import pandas  # noqa: E402

import coppice.mlflow  # noqa: E402

version, store, table = sys.argv[1:]
exported = coppice.mlflow.export(version, store, register=True)
again = coppice.mlflow.export(version, store, register=True)

mlflow.set_tracking_uri(store)
client = mlflow.MlflowClient()
run = client.get_run(exported.run)
experiment = client.get_experiment(run.info.experiment_id)
(registered,) = client.search_model_versions(f"run_id='{exported.run}'")
model = mlflow.pyfunc.load_model(f"models:/{experiment.name}/{registered.version}")
folder = mlflow.artifacts.download_artifacts(exported.model)

rows = pandas.read_csv(table, dtype=str, na_filter=False)
own = coppice.Model.load(os.path.join(folder, "version"))
booster = mlflow.lightgbm.load_model(exported.model)
json.dump(
    {
        "mlflow": mlflow.__version__,
        "experiment": experiment.name,
        "name": run.info.run_name,
        "status": run.info.status,
        "params": run.data.params,
        "metrics": run.data.metrics,
        "tags": run.data.tags,
        "times": [run.info.start_time, run.info.end_time],
        "datasets": [
            [d.dataset.name, d.dataset.digest, d.dataset.source, d.dataset.schema, d.dataset.profile]
            for d in run.inputs.dataset_inputs
        ],
        "run": exported.run,
        "again": again.run,
        "existed": [exported.existed, again.existed],
        "registered": [exported.registered, again.registered, registered.version],
        "found": [r.info.run_id for r in client.search_runs([experiment.experiment_id], "params.objective = 'binary'")],
        "inputs": model.metadata.get_input_schema().input_names(),
        "predicted": model.predict(rows).tolist(),
        "trees": booster.num_trees(),
        "raw": booster.predict(own.encode(rows), raw_score=True).tolist(),
        "expected_raw": own.predict(rows, raw=True).tolist(),
    },
    sys.stdout,
)
