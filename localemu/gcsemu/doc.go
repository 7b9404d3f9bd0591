// Package gcsemu is Google Cloud Storage on one machine: fake-gcs-server, with a layer in front of it that makes it keep
// the promises Coppice is built on.
//
// The layer adds: generation preconditions on every call and on the sources of copies and compositions, not on uploads only; a generation that is never given twice;
// reads whose contents belong to the generation that their header names; uploads that take time proportional to their
// size, continue after a lost answer and are checked against every checksum the client sends; names of every kind that the service takes, on disk, too;
// listings with the service's pages, prefixes and matchGlob; component counts; the errors that the real service gives for a missing bucket
// and an impossible name; and scripted faults.
//
// On disk an object is the file BUCKET/NAME. One whose name is not a valid path ("dir/", "a//b") or whose path is taken ("k" beside "k/b") is a file in the
// folder BUCKET+, with an escaped name.
//
// Not imitated:
//   - Metageneration of buckets: conditions on it are refused (501), and it never moves. That of an object counts the changes of its metadata, which leave
//     its generation as it is. A field of the metadata is changed, not taken away: null is refused (501).
//   - Object versioning with the filesystem backend, lifecycle rules, soft delete, retention, holds, IAM beyond what Options.Allow says, access lists,
//     signed URLs, form uploads, gzip-encoded uploads, the batch endpoint, the gRPC API, rate limits (429).
//   - Settings of buckets other than name, labels, storage class and, in memory, versioning: refused (501), as are softDeleted, filter, and matchGlob with
//     a delimiter in listings. A location is accepted and has no effect; a class is reported, and costs nothing. There are no folders that are not objects
//     (managed ones, and those of hierarchical buckets). In partial responses (fields) a name that no resource has is left out, not refused.
//   - With the memory backend an object is held twice while it is written. On disk a long object is written in place: a
//     crash at that moment leaves one whose checksum is wrong, which readers notice.
//   - Without Options.Allow anyone on this machine may do anything; with it, anyone who learns an identity's address may act as it. Requests that come from a web
//     page or under another host name are refused.
package gcsemu
