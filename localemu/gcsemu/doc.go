// Package gcsemu is Google Cloud Storage on one machine: fake-gcs-server, behind a layer that adds the guarantees on
// which Coppice relies.
//
// The layer adds: generation preconditions on every call and on the sources of copies and compositions, not on uploads
// only; generations that are never reused; reads whose contents belong to the generation in their header; uploads that
// take time proportional to their size, continue after a lost answer and are checked against every checksum that the
// client sends; every name that the service accepts, on disk, too; listings with the service's pages, prefixes and
// matchGlob; component counts; the service's errors for a missing bucket and an invalid name; and scripted faults.
//
// On disk an object is the file BUCKET/NAME. One whose name is not a valid path ("dir/", "a//b") or whose path is taken
// ("k" beside "k/b") is a file in the folder BUCKET+, with an escaped name.
//
// Not imitated:
//   - Metageneration of buckets: conditions on it are refused (501), and it never changes. An object's metageneration counts the changes of
//     its metadata, which do not change its generation. A field of the metadata can be changed but not removed: null is refused (501).
//   - Object versioning with the filesystem backend, lifecycle rules, soft delete, retention, holds, IAM beyond what Options.Allow says,
//     access lists, signed URLs, form uploads, gzip-encoded uploads, the batch endpoint, the gRPC API, rate limits (429).
//   - Settings of buckets other than name, labels, storage class and, in memory, versioning: refused (501), as are softDeleted, filter, and
//     matchGlob with a delimiter in listings. A location is accepted and has no effect; a class is reported, and has no costs. Folders are
//     objects only: there are no managed ones, and no hierarchical buckets. In partial responses (fields) a name that no resource has is
//     left out, not refused.
//   - With the memory backend an object is in memory twice while it is written. On disk a long object is written in place: a crash at that
//     moment leaves one whose checksum is wrong, which readers notice.
//   - Without Options.Allow any program on this machine may do anything; with it, any program that learns an identity's address may act as
//     that identity. Requests that come from a web page or under another host name are refused.
package gcsemu
