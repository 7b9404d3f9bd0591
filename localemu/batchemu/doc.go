// Package batchemu is Google Cloud Batch on one machine: a gRPC server of google.cloud.batch.v1.BatchService and
// google.longrunning.Operations that the real client library talks to, and behind it pretend machines on which the
// tasks run as processes.
//
// Imitated: scripts before the container, which run on the machine, not in the container; the validation of a job; the
// ids of requests that create jobs, which are remembered, and ALREADY_EXISTS; the states of jobs and tasks and the
// texts of their status events; counts, instances and run duration; task count, parallelism and tasks per VM; a local
// SSD per machine, shared by all its tasks, empty at first and gone at the end; the environment of a task, which is the
// job's and contains nothing of localemu's own; exit codes, the lifecycle policy, retries, maxRunDuration; preemption,
// lost machines and machines that are not available (scripted, see Faults); cancelling, listing in pages.
//
// Not imitated:
//   - Containers, unless Options.Containers names a tool that runs them. An image name stands for a local program,
//     which runs with the user's rights and sees the whole file system; a job with an unknown image is refused. The
//     path at which a volume is mounted does not exist: every occurrence of it in arguments and values of variables
//     is replaced by the machine's folder. In containers it does exist and belongs to root, like a disk that Batch
//     has formatted; the root file system is read-only, and the memory that tasks share is not measured. A localemu
//     that is killed may leave its containers (named localemu-...) behind.
//   - Machines. All pretend machines share the CPUs and the memory of the real one; machine types only say how many
//     tasks fit when the job does not; any name is one. There is no boot time, no quota but that of Faults,
//     and no second attempt at a machine that cannot be had.
//   - A machine's own system. A script runs with the rights of the user running localemu, who stands for root,
//     beside everything else on this machine, from the machine's folder; there the path of a mount is replaced by
//     one relative to that folder (./ssd), so a script that changes the directory does not find it.
//   - Runnables other than scripts for /bin/sh and then one container, entrypoints, container options, task
//     environments, secret variables, hosts files, NFS and Cloud Storage volumes, notifications about tasks,
//     instance templates: UNIMPLEMENTED, so that no job silently runs differently here.
//   - On Windows, scripts that do more than make folders.
//   - Deleting jobs that have not ended, and listing tasks.
//   - Filters of lists, and orders other than by name.
//   - The loss of notifications, which happens in the cloud, and the permission that the job's account needs to
//     publish them.
//   - Variables that are set in the cloud but not documented (BATCH_JOB_ID and its like): a task must not need them.
//   - Cloud Logging: output goes to one file per attempt, regardless of the job's logs policy.
//   - IAM and service accounts, networks, labels on machines, priorities among jobs, the limits on requests per
//     minute.
//   - Persistence: a restarted server knows no earlier job. Finished jobs stay, and not for 60 days only.
//   - The same job id in several projects or locations at a time: folders are named after it.
//   - What Google does with the other tasks once one has failed permanently is not documented, and was seen once: they
//     go on (187 of 189 finished), and the job fails at its end. So it is here.
package batchemu
