"""Asks a server with clients that others wrote, and compares the bits: pyarrow, tritonclient, curl over HTTP/2.

Run in the local cloud of `make bench-serve`, whose model it asks, by `make serve-clients`.
"""

import argparse
import json
import random
import subprocess
import time
import urllib.request

import numpy as np
import pyarrow as pa
import serve
import tritonclient.http as triton

AT = "127.0.0.1:18799"


def ask(kind, body):
    request = urllib.request.Request(f"http://{AT}/predict", data=body, headers={"Content-Type": kind})
    return json.load(urllib.request.urlopen(request))


def stream(table, want):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as w:
        w.write_table(table, max_chunksize=7)
    assert ask("application/vnd.apache.arrow.stream", sink.getvalue().to_pybytes()) == want
    print("pyarrow", pa.__version__, "stream: the same bits")


def infer(table, want):
    client = triton.InferenceServerClient(AT)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("serving")
    assert client.get_model_metadata("serving")["outputs"][0]["name"] == "prediction"
    for binary in (True, False):
        inputs = []
        for name in table.column_names:
            values = table.column(name).to_pylist()
            text = isinstance(values[0], str)
            data = np.array([v.encode() for v in values], dtype=object) if text else np.array(values)
            inputs.append(triton.InferInput(name, list(data.shape), "BYTES" if text else "FP64"))
            inputs[-1].set_data_from_numpy(data, binary_data=binary)
        asked = [triton.InferRequestedOutput("prediction", binary_data=binary)]
        for outputs in (asked, None):
            got = client.infer("serving", inputs, outputs=outputs, request_id="7")
            assert got.as_numpy("prediction").tolist() == want["predictions"]
    print("tritonclient, binary and JSON: the same bits")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    args = p.parse_args()
    server = subprocess.Popen([f"{args.bin}/launcher", "serve", "--model", "serving@latest", "--listen", AT])
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{AT}/readyz").read()
                break
            except OSError:
                time.sleep(0.2)
        rng = random.Random(5)
        rows = [serve.row(rng)[0] for _ in range(50)]
        body = json.dumps({"instances": rows})
        want = ask("application/json", body.encode())
        table = pa.Table.from_pylist(rows)
        stream(table, want)
        infer(table, want)
        text = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version}", "-d", body, "-H",
                               "Content-Type: application/json", f"http://{AT}/predict"], check=True, capture_output=True,
                              text=True).stdout
        assert json.loads(text[:-1]) == want and text[-1] == "2", text
        print("curl over h2c: the same bits")
    finally:
        server.terminate()
        assert server.wait() == 0


if __name__ == "__main__":
    main()
