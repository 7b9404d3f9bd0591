package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"coppice/internal/cloud"
)

// buckets checks the settings of the three buckets.
func (d *Doctor) buckets(ctx context.Context) {
	for _, b := range []struct {
		name, variable      string
		versioned, undelete bool
	}{
		{d.Deployment.DatasetsBucket, "COPPICE_DATASETS_BUCKET", false, true},
		{d.Deployment.SweepsBucket, "COPPICE_SWEEPS_BUCKET", false, false},
		{d.Deployment.RegistryBucket, "COPPICE_REGISTRY_BUCKET", true, true},
	} {
		where := "gs://" + b.name
		settings, err := d.Cloud.Bucket(ctx, b.name)

		switch {
		case errors.Is(err, cloud.ErrNotThere):
			d.add("bucket", Problem, where, apply, "it does not exist; %s names it", b.variable)
		case err != nil:
			d.cannot("bucket", where, err)
		default:
			d.location(where, settings)
			d.settings(where, settings, b.versioned, b.undelete)
		}
	}
}

// location checks the region: reading data from another region is slow, and costs egress.
func (d *Doctor) location(where string, b cloud.Bucket) {
	region := d.Deployment.Location
	if b.Location == region {
		d.add("bucket", OK, where, "", "it is in %s, where the machines are", region)
		return
	}
	d.add("bucket", Problem, where, fmt.Sprintf("gcloud storage buckets relocate %s --location=%s", where, region),
		"it is in %s and the machines are in %s: every machine's copy of a dataset would cross regions, and be billed",
		b.Location, region)
}

func (d *Doctor) settings(where string, b cloud.Bucket, versioned, undelete bool) {
	if d.Deployment.local() {
		d.add("bucket", NotChecked, where, "",
			"uniform access, public access, versioning and soft delete: the buckets of the local cloud have no such "+
				"settings")
		return
	}

	update := func(flag string) string { return "gcloud storage buckets update " + where + " " + flag }
	d.setting(where, b.Uniform, Problem, update("--uniform-bucket-level-access"), "uniform access",
		"access lists of single objects apply in addition to the bucket's policy")
	d.setting(where, b.PublicPrevented, Warning, update("--public-access-prevention"), "public access prevention",
		"a mistake could make objects public")
	if versioned {
		d.setting(where, b.Versioned, Warning, update("--versioning"), "versioning",
			"an overwritten alias or model cannot be restored")
	}
	if !undelete {
		d.setting(where, b.SoftDelete == 0, Warning, update("--clear-soft-delete"), "no soft delete",
			fmt.Sprintf("overwritten objects are kept and billed for %s, and heartbeats are overwritten every few "+
				"seconds", b.SoftDelete))
	}
}

func (d *Doctor) setting(where string, good bool, bad Severity, fix, what, otherwise string) {
	if good {
		d.add("bucket", OK, where, "", "%s", what)
		return
	}
	d.add("bucket", bad, where, fix, "%s is not set: %s", what, otherwise)
}

// messages checks topics and subscriptions.
func (d *Doctor) messages(ctx context.Context) {
	scores := d.topic(d.Deployment.ScoresTopic)
	d.topicThere(ctx, scores, "COPPICE_SCORES_TOPIC")
	if d.Deployment.JobsTopic != "" {
		d.topicThere(ctx, d.topic(d.Deployment.JobsTopic), "COPPICE_JOBS_TOPIC")
	}

	if d.Deployment.Verdicts.Topic != "" {
		d.topicThere(ctx, d.topic(d.Deployment.Verdicts.Topic), "COPPICE_VERDICTS_TOPIC")
	}

	name := d.subscription(d.Deployment.Subscription)
	s, err := d.Cloud.Subscription(ctx, name)
	switch {
	case errors.Is(err, cloud.ErrNotThere):
		d.add("subscription", Problem, name, apply, "it does not exist; COPPICE_SUBSCRIPTION names it")
		return
	case err != nil:
		d.cannot("subscription", name, err)
		return
	case s.Topic != scores:
		d.add("subscription", Problem, name, apply, "it is a subscription to %s, but scores are published to %s",
			s.Topic, scores)
	default:
		d.add("subscription", OK, name, "", "it is a subscription to %s", s.Topic)
	}

	last := name[strings.LastIndexByte(name, '/')+1:]
	if s.DeadLetterTopic == "" {
		d.add("subscription", Warning, name, d.gcloud("pubsub subscriptions update", last+" --dead-letter-topic="+
			d.Deployment.ScoresTopic+"-dead --max-delivery-attempts=20"),
			"it has no dead-letter topic: a message that the aggregator cannot use would be redelivered forever")
		return
	}
	d.add("subscription", OK, name, "", "after %d attempts a message goes to %s", s.MaxAttempts, s.DeadLetterTopic)
	d.topicThere(ctx, s.DeadLetterTopic, "the subscription")
}

func (d *Doctor) topicThere(ctx context.Context, name, namedBy string) {
	err := d.Cloud.Topic(ctx, name)
	switch {
	case errors.Is(err, cloud.ErrNotThere):
		d.add("topic", Problem, name, apply, "it does not exist; %s names it", namedBy)
	case err != nil:
		d.cannot("topic", name, err)
	default:
		d.add("topic", OK, name, "", "it exists")
	}
}

// images checks that the machines' images exist.
func (d *Doctor) images(ctx context.Context) {
	for _, i := range []struct {
		reference string
		missing   Severity
		use       string
	}{
		{d.Deployment.TaskImage, Problem, "runs on the machines of a sweep"},
		{d.Deployment.LauncherImage, Warning, "runs `launcher stage --batch` and `launcher backtest --batch`"},
	} {
		image, ok := cloud.ParseImage(i.reference)
		if !ok {
			why := "it is not in Artifact Registry (LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG)"
			if d.Deployment.local() {
				why = "in the local cloud a program on this machine runs in its place"
			}
			d.add("image", NotChecked, i.reference, "", "%s", why)
			continue
		}

		err := d.Cloud.Image(ctx, image)
		switch {
		case errors.Is(err, cloud.ErrNotThere):
			registry := image.Location + "-docker.pkg.dev/" + image.Project + "/" + image.Repository
			d.add("image", i.missing, i.reference, "make images push REGISTRY="+registry, "it does not exist, and %s",
				i.use)
		case err != nil:
			d.cannot("image", i.reference, err)
		default:
			d.add("image", OK, i.reference, "", "it exists, and %s", i.use)
		}
	}
}
