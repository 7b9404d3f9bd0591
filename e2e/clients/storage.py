"""What pip's google-cloud-storage does with the local cloud: one function a call, as its documentation has it.

A call that localemu imitates has to give what the service gives; one that it does not has to be
refused by name, with a code on which the client does not retry for minutes. Run by `make interop`
within `localemu exec`. """

import io
import uuid

from clients import client_main, refused, raises
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

client = storage.Client(project="local-project", credentials=AnonymousCredentials())
bucket = client.bucket(f"foreign-{uuid.uuid4().hex[:12]}")


def made(name="o", data=b"hello", **how):
    blob = bucket.blob(name)
    blob.upload_from_string(data, **how)
    return blob


def test_a_bucket_is_made_and_found():
    client.create_bucket(bucket)
    assert bucket.exists() and bucket.name in [b.name for b in client.list_buckets()]


def test_upload_and_download():
    blob = made("text", "grüße", content_type="text/plain")
    assert blob.download_as_text() == "grüße" and blob.generation > 0 and blob.content_type == "text/plain"
    assert client.get_bucket(bucket.name).get_blob("text").size == len("grüße".encode())
    assert blob.download_as_bytes(start=1, end=3) == "grüße".encode()[1:4]


def test_resumable_upload_in_chunks():
    blob = bucket.blob("large", chunk_size=256 * 1024)
    data = bytes(range(256)) * 4096
    blob.upload_from_file(io.BytesIO(data), size=len(data), checksum="crc32c")
    assert blob.download_as_bytes(checksum="md5") == data


def test_create_only():
    made("once", if_generation_match=0)
    with raises(exceptions.PreconditionFailed):
        made("once", if_generation_match=0)


def test_conditions_on_generations():
    blob = made("gen")
    old = blob.generation
    blob.upload_from_string(b"next", if_generation_match=old)
    assert blob.generation > old
    with raises(exceptions.PreconditionFailed):
        blob.delete(if_generation_match=old)
    with raises(exceptions.PreconditionFailed):
        bucket.blob("gen").download_as_bytes(if_generation_match=old)


def test_list_with_prefix_and_delimiter():
    for name in ("tree/a", "tree/b/1", "tree/b/2"):
        made(name)
    found = client.list_blobs(bucket, prefix="tree/", delimiter="/")
    assert [b.name for b in found] == ["tree/a"] and found.prefixes == {"tree/b/"}
    pages = client.list_blobs(bucket, prefix="tree/", page_size=1)
    assert [b.name for b in pages] == ["tree/a", "tree/b/1", "tree/b/2"]


def test_a_name_that_is_not_there():
    for name in ("absent", "absent/", "a//b", "text/below"):
        assert bucket.get_blob(name) is None, name
        assert not bucket.blob(name).exists(), name
        with raises(exceptions.NotFound):
            bucket.blob(name).download_as_bytes()


def test_names_that_are_no_paths():
    names = ["dir/", "double//slash", "text/below", "/rooted", "a/../b", "x" * 300, "é" * 512]
    for name in names:
        blob = made(name, name)
        assert bucket.get_blob(name).size == len(name.encode()) and blob.download_as_text() == name, name
        with raises(exceptions.PreconditionFailed):
            made(name, if_generation_match=0)
    assert set(names) <= {b.name for b in client.list_blobs(bucket)}
    assert bucket.blob("text").download_as_text() == "grüße"
    for name in (".", "..", "line\nbreak"):
        refused(lambda: made(name), "name")


def test_folders_as_the_console_makes_them():
    made("folder/", b"", content_type="application/x-www-form-urlencoded;charset=UTF-8")
    made("folder/file")
    made("folder/sub/", b"")
    found = client.list_blobs(bucket, prefix="folder/", delimiter="/")
    assert [b.name for b in found] == ["folder/", "folder/file"] and found.prefixes == {"folder/sub/"}
    found = client.list_blobs(bucket, prefix="folder", delimiter="/")
    assert [b.name for b in found] == [] and found.prefixes == {"folder/"}
    found = client.list_blobs(bucket, prefix="folder", delimiter="/", include_trailing_delimiter=True)
    assert [b.name for b in found] == ["folder/"] and found.prefixes == {"folder/"}
    for name in ("folder/", "folder/sub/", "folder/file"):
        bucket.blob(name).delete()
    assert list(client.list_blobs(bucket, prefix="folder")) == []


def test_open_as_a_file():
    with bucket.blob("file").open("w") as f:
        f.write("line 1\nline 2\n")
    with bucket.blob("file").open() as f:
        assert f.readlines() == ["line 1\n", "line 2\n"]


def test_settings_of_a_bucket_that_are_refused():
    for set_ in ("versioning_enabled", "requester_pays"):
        other = client.bucket(f"foreign-{uuid.uuid4().hex[:12]}")
        setattr(other, set_, True)
        refused(lambda: client.create_bucket(other), "localemu does not imitate")
        assert not other.exists(), set_
    there = client.get_bucket(bucket.name)
    there.add_lifecycle_delete_rule(age=2)
    refused(there.patch, "localemu does not imitate")
    refused(lambda: bucket.copy_blob(made("original"), bucket, "copy"), "localemu does not imitate")


def test_what_is_not_imitated_is_refused():
    blob = bucket.get_blob("text")
    refused(lambda: list(client.list_blobs(bucket, match_glob="a*")), "localemu does not imitate matchGlob")
    refused(lambda: bucket.get_iam_policy(), "localemu does not imitate")
    refused(lambda: blob.acl.reload(), "localemu does not imitate")
    refused(lambda: bucket.list_notifications().__next__(), "localemu does not imitate")


def test_a_batch():
    def together():
        with client.batch():
            made("together").delete()

    refused(together, "localemu does not imitate")


def test_a_full_bucket_is_not_deleted():
    with raises(exceptions.Conflict):
        bucket.delete()


def test_delete():
    for blob in list(client.list_blobs(bucket)):
        blob.delete()
    with raises(exceptions.NotFound):
        bucket.blob("text").delete()
    bucket.delete()
    assert not bucket.exists()


if __name__ == "__main__":
    client_main(globals())
