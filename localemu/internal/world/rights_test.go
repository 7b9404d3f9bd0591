//go:build unix

package world

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/inspect"
	"coppice/internal/cloud/pubsub"
	"coppice/terraform"
)

// enforced is a local cloud in which every identity has the rights of the table.
func enforced(t *testing.T) *World {
	t.Helper()
	table, err := terraform.Load()
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), Options{Data: t.TempDir(), Rights: table, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// bucket returns a bucket as an identity sees it, through the adapter and Google's library.
func (w *World) bucket(t *testing.T, identity, name string) blob.Store {
	t.Helper()
	c, err := gcs.New(t.Context(), option.WithEndpoint("http://"+w.at(identity).storage+"/storage/v1/"),
		option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Bucket(name)
}

func refused(err error) bool {
	var p *cloud.PermissionError
	return errors.As(err, &p) && strings.Contains(err.Error(), "denied on resource")
}

func TestRightsOfStorage(t *testing.T) {
	w, ctx := enforced(t), t.Context()
	put := func(identity, bucket string, when blob.Generation, text string) error {
		_, err := w.bucket(t, identity, bucket).Put(ctx, "plans/x.json", when, strings.NewReader(text))
		return err
	}
	if err := put(terraform.Aggregator, "coppice-sweeps", blob.Absent, "1"); err != nil {
		t.Errorf("the aggregator creates: %v", err)
	}
	if err := put(terraform.Aggregator, "coppice-sweeps", blob.Any, "2"); !refused(err) {
		t.Errorf("the aggregator overwrites: %v", err)
	}
	if err := put(terraform.Aggregator, "coppice-sweeps", blob.Absent, "2"); !errors.Is(err, blob.ErrPrecondition) {
		t.Errorf("the aggregator creates what is there: %v", err)
	}
	// in a session
	if err := put(terraform.Aggregator, "coppice-sweeps", blob.Any, strings.Repeat("long", 2<<20)); !refused(err) {
		t.Errorf("the aggregator overwrites with much: %v", err)
	}
	if err := put(terraform.Task, "coppice-sweeps", blob.Any, "3"); err != nil {
		t.Errorf("a task overwrites: %v", err)
	}
	if err := put(terraform.Task, "coppice-datasets", blob.Any, "4"); !refused(err) {
		t.Errorf("a task writes a dataset: %v", err)
	}
	if _, err := w.bucket(t, terraform.Stager, "coppice-sweeps").Stat(ctx, "plans/x.json"); !refused(err) {
		t.Errorf("the stager looks at a plan: %v", err)
	}
	if _, _, err := blob.ReadAll(ctx, w.bucket(t, terraform.Stager, "coppice-sweeps"), "plans/x.json",
		100); !refused(err) {
		t.Errorf("the stager reads a plan: %v", err)
	}
	for _, err := range w.bucket(t, terraform.Stager, "coppice-sweeps").List(ctx, "") {
		if !refused(err) {
			t.Errorf("the stager lists plans: %v", err)
		}
	}
	if text, _, err := blob.ReadAll(ctx, w.bucket(t, terraform.Launcher, "coppice-sweeps"), "plans/x.json",
		100); err != nil || string(text) != "3" {
		t.Errorf("the object reads %q, %v; expected 3", text, err)
	}
}

func TestRightsOfMessages(t *testing.T) {
	w := enforced(t)
	client := func(identity string) *pubsub.Client {
		conn, err := grpc.NewClient(w.at(identity).messages, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		c, err := pubsub.New(t.Context(), project, option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	publish := func(identity string) error {
		p := client(identity).Publisher(scoresTopic)
		defer p.Close()
		return p.Publish(t.Context(), []byte("x"), nil)
	}
	if err := publish(terraform.Task); err != nil {
		t.Errorf("a task publishes: %v", err)
	}
	if err := publish(terraform.Aggregator); !refused(err) {
		t.Errorf("the aggregator publishes: %v", err)
	}
	if err := client(terraform.Task).Subscription(subscription).Receive(t.Context(),
		func(context.Context, []byte) error { return nil }); !refused(err) {
		t.Errorf("a task receives: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	err := client(terraform.Aggregator).Subscription(subscription).Receive(ctx,
		func(context.Context, []byte) error { stop(); return nil })
	if err != nil {
		t.Errorf("the aggregator receives: %v", err)
	}
}

func TestRightsOfJobs(t *testing.T) {
	w := enforced(t)
	client := func(identity string) batchpb.BatchServiceClient {
		conn, err := grpc.NewClient(w.at(identity).batch, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return batchpb.NewBatchServiceClient(conn)
	}
	job := func(email string) *batchpb.CreateJobRequest {
		return &batchpb.CreateJobRequest{Parent: "projects/local-project/locations/us-central1", JobId: "j",
			Job: &batchpb.Job{AllocationPolicy: &batchpb.AllocationPolicy{ServiceAccount: &batchpb.ServiceAccount{Email: email}}}}
	}
	for name, tc := range map[string]struct {
		identity, account string
		want              codes.Code
	}{
		// allowed, but this is no job
		"launcher as task":       {terraform.Launcher, w.guard.email(terraform.Task), codes.InvalidArgument},
		"launcher as aggregator": {terraform.Launcher, w.guard.email(terraform.Aggregator), codes.PermissionDenied},
		"launcher as default":    {terraform.Launcher, "", codes.PermissionDenied},
		"aggregator":             {terraform.Aggregator, w.guard.email(terraform.Task), codes.PermissionDenied},
	} {
		if _, err := client(tc.identity).CreateJob(t.Context(), job(tc.account)); status.Code(err) != tc.want {
			t.Errorf("%s: creating a job was answered with %v, expected %s", name, err, tc.want)
		}
	}
	get := &batchpb.GetJobRequest{Name: "projects/local-project/locations/us-central1/jobs/j"}
	if _, err := client(terraform.Aggregator).GetJob(t.Context(), get); status.Code(err) != codes.NotFound {
		t.Errorf("the aggregator asks: %v", err)
	}
	if _, err := client(terraform.Task).GetJob(t.Context(), get); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a task asks: %v", err)
	}
	if _, err := client(terraform.Aggregator).CancelJob(t.Context(),
		&batchpb.CancelJobRequest{Name: get.Name}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the aggregator cancels: %v", err)
	}
}

// TestInspect: the adapter reads what exists in the local cloud, as far as the caller may know it.
func TestInspect(t *testing.T) {
	w, ctx := enforced(t), t.Context()
	as := func(identity string) *inspect.Client {
		c, err := inspect.New(ctx, inspect.Options{Project: project, Location: location, Endpoint: w.at(identity).rest})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	owner, launcher := as(Owner), as(terraform.Launcher)
	if email, err := launcher.Caller(ctx); err != nil ||
		email != "coppice-launcher@local-project.iam.gserviceaccount.com" {
		t.Errorf("the launcher is told that it is %q, %v; expected its account", email, err)
	}
	held, err := launcher.Held(ctx, cloud.Resource{Kind: "bucket", Name: "coppice-sweeps"},
		[]string{"storage.objects.create", "storage.buckets.get", "storage.objects.list"})
	if err != nil || !slices.Equal(held, []string{"storage.objects.create", "storage.objects.list"}) {
		t.Errorf("on the bucket the launcher holds %q, %v; expected to create and to list objects", held, err)
	}
	held, err = launcher.Held(ctx, cloud.Resource{Kind: "account", Name: w.guard.email(terraform.Task)},
		[]string{"iam.serviceAccounts.actAs", "iam.serviceAccounts.getAccessToken"})
	if err != nil || !slices.Equal(held, []string{"iam.serviceAccounts.actAs"}) {
		t.Errorf("on the task's account the launcher holds %q, %v; expected to act as it", held, err)
	}
	if _, err := owner.Held(ctx, cloud.Resource{Kind: "bucket", Name: "coppice-none"}, nil); !errors.Is(err,
		cloud.ErrNotThere) {
		t.Errorf("a bucket that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if held, err := owner.Held(ctx, cloud.Resource{Kind: "project", Name: project},
		[]string{"batch.jobs.create"}); err != nil || len(held) != 1 {
		t.Errorf("on the project the owner holds %q, %v; expected to create jobs", held, err)
	}
	if err := owner.Topic(ctx, topic(scoresTopic)); err != nil {
		t.Errorf("the topic of scores: got %v, expected that it exists", err)
	}
	if err := owner.Topic(ctx, topic("none")); !errors.Is(err, cloud.ErrNotThere) {
		t.Errorf("a topic that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if _, err := owner.Enabled(ctx, []string{"batch.googleapis.com"}); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("the enabled services: got %v, expected %v", err, cloud.ErrNotImitated)
	}
}

func TestIdentities(t *testing.T) {
	if CheckIdentity("owner") != nil || CheckIdentity("root") == nil {
		t.Error("who may be somebody")
	}
	w := enforced(t)
	if at := w.at("somebody"); at != (addresses{}) {
		t.Errorf("a stranger finds %+v", at)
	}
	seen := map[string]bool{}
	for _, identity := range identities {
		at := w.at(identity)
		for _, a := range []string{at.storage, at.messages, at.batch, at.rest} {
			if a == "" || seen[a] {
				t.Errorf("%s has the address %q, as another has", identity, a)
			}
			seen[a] = true
		}
	}
}
