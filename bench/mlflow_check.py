"""Read with MLflow what `launcher registry export --mlflow` has written, and predict.

    python bench/mlflow_check.py STORE RUN TABLE.csv

STORE is a folder, or the address of a tracking server; there the run has to be a version of the registered model of the experiment's name.
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
remote = store.startswith("http")
mlflow.set_tracking_uri(store if remote else "file://" + os.path.abspath(store))
client = mlflow.MlflowClient()
run = client.get_run(run_id)
experiment = client.get_experiment(run.info.experiment_id)
if remote:
    registered, = client.search_model_versions(f"run_id='{run_id}'")
    model = mlflow.pyfunc.load_model(f"models:/{experiment.name}/{registered.version}")
    folder = mlflow.artifacts.download_artifacts(f"runs:/{run_id}/model")
else:
    folder = run.info.artifact_uri.removeprefix("file://") + "/model"
    model = mlflow.pyfunc.load_model(folder)

rows = pandas.read_csv(table, dtype=str, na_filter=False)
version = coppice.Model.load(os.path.join(folder, "version"))
booster = mlflow.lightgbm.load_model(folder)
json.dump({
    "mlflow": mlflow.__version__, "experiment": experiment.name, "name": run.info.run_name, "status": run.info.status, "params": run.data.params,
    "metrics": run.data.metrics, "tags": run.data.tags, "times": [run.info.start_time, run.info.end_time],
    "datasets": [[d.dataset.name, d.dataset.digest, d.dataset.source, d.dataset.schema, d.dataset.profile] for d in run.inputs.dataset_inputs],
    "signature": model.metadata.signature.to_dict(),
    "found": [r.info.run_id for r in client.search_runs([experiment.experiment_id], "params.objective = 'binary'")],
    "inputs": model.metadata.get_input_schema().input_names(), "predicted": model.predict(rows).tolist(),
    "trees": booster.num_trees(), "raw": booster.predict(version.encode(rows), raw_score=True).tolist(),
    "expected_raw": version.predict(rows, raw=True).tolist(),
}, sys.stdout)
