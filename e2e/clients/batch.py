"""What pip's google-cloud-batch does with the local cloud; see storage.py."""

import os
import uuid

import grpc
from clients import client_main, raises, refused
from google.api_core import exceptions
from google.cloud import batch_v1
from google.cloud.batch_v1.services.batch_service import transports

channel = grpc.insecure_channel(os.environ["COPPICE_BATCH_ENDPOINT"].removeprefix("http://"))
client = batch_v1.BatchServiceClient(transport=transports.BatchServiceGrpcTransport(channel=channel))
parent = "projects/local-project/locations/us-central1"
name = f"foreign-{uuid.uuid4().hex[:8]}"


def job(*runnables, **more):
    spec = batch_v1.TaskSpec(runnables=runnables, **more)
    policy = batch_v1.AllocationPolicy(
        instances=[{"policy": {"machine_type": "n2-highmem-2"}}],
        location={"allowed_locations": ["regions/us-central1"]},
    )
    return batch_v1.Job(
        task_groups=[batch_v1.TaskGroup(task_spec=spec, task_count=1)],
        allocation_policy=policy,
        logs_policy={"destination": "CLOUD_LOGGING"},
    )


def task_image():
    return batch_v1.Runnable(container={"image_uri": os.environ["COPPICE_TASK_IMAGE"], "commands": ["--version"]})


def test_create_get_list():
    made = client.create_job(parent=parent, job=job(task_image()), job_id=name)
    assert made.name == f"{parent}/jobs/{name}" and made.uid
    with raises(exceptions.AlreadyExists):
        client.create_job(parent=parent, job=job(task_image()), job_id=name)
    assert client.get_job(name=made.name).task_groups[0].task_count == 1
    assert made.name in [j.name for j in client.list_jobs(parent=parent)]
    client.cancel_job(name=made.name).result(timeout=15)
    client.delete_job(name=made.name).result(timeout=15)
    with raises(exceptions.NotFound):
        client.get_job(name=made.name)


def test_what_is_not_there():
    with raises(exceptions.NotFound):
        client.get_job(name=f"{parent}/jobs/absent")


def test_what_the_service_refuses():
    with raises(exceptions.InvalidArgument):
        client.create_job(parent=parent, job=batch_v1.Job(), job_id=f"{name}-x")
    with raises(exceptions.InvalidArgument):
        client.create_job(parent=parent, job=job(task_image()), job_id="Not_A_Name")


def test_what_is_not_imitated_is_refused():
    script = batch_v1.Runnable(script={"text": "true"})
    bucket = batch_v1.Volume(gcs={"remote_path": "b"}, mount_path="/mnt/disks/b")
    for made in (
        job(script),
        job(batch_v1.Runnable(script={"text": "true"}, background=True), task_image()),
        job(task_image(), volumes=[bucket]),
    ):
        refused(lambda: client.create_job(parent=parent, job=made, job_id=f"{name}-x"), "localemu")
    with raises(exceptions.MethodNotImplemented):
        list(client.list_tasks(parent=f"{parent}/jobs/{name}/taskGroups/group0"))


if __name__ == "__main__":
    client_main(globals())
