"""Asks a server with clients that others wrote, and compares the bits with `launcher predict`: pyarrow, tritonclient over
HTTP and gRPC, the protocol's generated messages, curl over HTTP/2.

Run in a local cloud that has the model: `make serve-clients`, and within `make interop`.
"""

import argparse
import csv
import json
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.csv
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc


def ask(at, kind, body):
    request = urllib.request.Request(f"http://{at}/predict", data=body, headers={"Content-Type": kind})
    return json.load(urllib.request.urlopen(request))["predictions"]


def stream(at, table, want):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as w:
        w.write_table(table, max_chunksize=7)
    assert ask(at, "application/vnd.apache.arrow.stream", sink.getvalue().to_pybytes()) == want
    print("pyarrow", pa.__version__, "stream: the same bits")


def tensors(table):
    """Name, datatype and values of each column; one that lacks values is of texts, since JSON has no NaN."""
    for name in table.column_names:
        values = table.column(name).to_pylist()
        kinds = {type(v) for v in values}
        if kinds == {float}:
            yield name, "FP64", np.array(values)
        elif kinds == {int}:
            yield name, "INT64", np.array(values, dtype=np.int64)
        else:
            yield name, "BYTES", np.array([b"" if v is None else str(v).encode() for v in values], dtype=object)


def triton(module, at, model, table, want, **asked):
    """The same calls of Triton's clients of HTTP and gRPC."""
    client = module.InferenceServerClient(at)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
    inputs = []
    for name, datatype, data in tensors(table):
        inputs.append(module.InferInput(name, list(data.shape), datatype))
        inputs[-1].set_data_from_numpy(data, **asked)
    for outputs in ([module.InferRequestedOutput("prediction", **asked)], None):
        got = client.infer(model, inputs, outputs=outputs, request_id="7")
        assert got.as_numpy("prediction").tolist() == want
    return client


def typed(at, model, table, want):
    """Typed contents, which Triton's client does not send, with the messages that it carries."""
    q = service_pb2.ModelInferRequest(model_name=model, id="7")
    for name, datatype, data in tensors(table):
        t = q.inputs.add(name=name, datatype=datatype, shape=data.shape)
        where = {"BYTES": t.contents.bytes_contents, "FP64": t.contents.fp64_contents, "INT64": t.contents.int64_contents}
        where[datatype].extend(data.tolist())
    with grpc.insecure_channel(at) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        answer, call = infer.with_call(q)
        assert list(answer.outputs[0].contents.fp64_contents) == want and answer.id == "7"
        named = dict(call.initial_metadata())["coppice-version"]
        assert named == f"{model}@{answer.model_version}", named
        del q.inputs[1:]
        try:
            infer(q)
        except grpc.RpcError as e:
            assert e.code() is grpc.StatusCode.INVALID_ARGUMENT and "columns are missing" in e.details(), e
        else:
            raise AssertionError("a request without a column was answered")


def curl(at, body, want):
    text = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version}", "-d", body, "-H",
                           "Content-Type: application/json", f"http://{at}/predict"], check=True, capture_output=True,
                          text=True).stdout
    assert json.loads(text[:-1])["predictions"] == want and text[-1] == "2", text
    print("curl over h2c: the same bits")


def first(path, rows, folder):
    """The first rows of a table, as a file of their own."""
    with open(path, newline="") as f, open(f"{folder}/rows.csv", "w", newline="") as out:
        table = csv.reader(f)
        csv.writer(out).writerows(row for row, _ in zip(table, range(rows + 1)))
    return f"{folder}/rows.csv"


def predicted(launcher, model, path, folder):
    """What `launcher predict` says."""
    out = f"{folder}/scored.csv"
    subprocess.run([launcher, "predict", "--model", model, "--in", path, "--out", out], check=True, capture_output=True)
    return [float(line) for line in pathlib.Path(out).read_text().split()[1:]]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--launcher", required=True)
    p.add_argument("--model", required=True, help="MODEL@VERSION")
    p.add_argument("--table", required=True, help="rows, in CSV")
    p.add_argument("--rows", type=int, default=50)
    args = p.parse_args()
    model = args.model.split("@")[0]
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([args.launcher, "serve", "--model", args.model, "--listen", at])
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = first(args.table, args.rows, folder)
            want = predicted(args.launcher, args.model, path, folder)
            table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, null_values=[""]))
        dates = [i for i, f in enumerate(table.schema) if pa.types.is_temporal(f.type)]
        for i in dates:  # neither JSON nor tensors have them
            table = table.set_column(i, table.schema[i].name, table.column(i).cast(pa.string()))
        assert len(want) == args.rows and len(set(want)) > 1, want
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{at}/readyz").read()
                break
            except OSError:
                time.sleep(0.1)
        body = json.dumps({"instances": table.to_pylist()})
        assert ask(at, "application/json", body.encode()) == want
        stream(at, table, want)
        for binary in (True, False):
            client = triton(tritonclient.http, at, model, table, want, binary_data=binary)
        assert client.get_model_metadata(model)["outputs"][0]["name"] == "prediction"
        client = triton(tritonclient.grpc, at, model, table, want)
        assert client.get_model_metadata(model).outputs[0].name == "prediction"
        assert client.get_server_metadata().name == "coppice"
        typed(at, model, table, want)
        print("tritonclient over HTTP, binary and JSON, and over gRPC, raw and typed: the same bits")
        curl(at, body, want)
    finally:
        server.terminate()
        assert server.wait() == 0


if __name__ == "__main__":
    main()
