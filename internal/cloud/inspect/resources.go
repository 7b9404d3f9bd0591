package inspect

import (
	"context"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"coppice/internal/cloud"
)

// Bucket returns a bucket's settings.
func (c *Client) Bucket(ctx context.Context, name string) (cloud.Bucket, error) {
	var b struct {
		Location string `json:"location"`
		Access   struct {
			Uniform struct {
				Enabled bool `json:"enabled"`
			} `json:"uniformBucketLevelAccess"`
			Public string `json:"publicAccessPrevention"`
		} `json:"iamConfiguration"`
		Versioning struct {
			Enabled bool `json:"enabled"`
		} `json:"versioning"`
		SoftDelete struct {
			Seconds int64 `json:"retentionDurationSeconds,string"`
		} `json:"softDeletePolicy"`
	}

	fields := url.Values{"fields": {"location,iamConfiguration,versioning,softDeletePolicy"}}
	err := c.read(ctx, "storage.googleapis.com", path("/storage/v1/b/%s", name), fields, nil, &b)

	return cloud.Bucket{
		Location: strings.ToLower(b.Location), Uniform: b.Access.Uniform.Enabled,
		PublicPrevented: b.Access.Public == "enforced",
		Versioned:       b.Versioning.Enabled,
		SoftDelete: time.Duration(min(max(b.SoftDelete.Seconds, 0),
			math.MaxInt64/int64(time.Second))) * time.Second,
	}, err
}

// Topic returns nil if the topic with this full name exists.
func (c *Client) Topic(ctx context.Context, name string) error {
	d, err := c.endpointOf(cloud.Resource{Kind: "topic", Name: name})
	if err != nil {
		return err
	}
	var t struct{}
	return c.read(ctx, d.service, d.path, nil, nil, &t)
}

// Subscription returns the settings of the subscription with this full name.
func (c *Client) Subscription(ctx context.Context, name string) (cloud.Subscription, error) {
	d, err := c.endpointOf(cloud.Resource{Kind: "subscription", Name: name})
	if err != nil {
		return cloud.Subscription{}, err
	}

	var s struct {
		Topic string `json:"topic"`
		Dead  struct {
			Topic    string `json:"deadLetterTopic"`
			Attempts int    `json:"maxDeliveryAttempts"`
		} `json:"deadLetterPolicy"`
	}

	err = c.read(ctx, d.service, d.path, nil, nil, &s)
	return cloud.Subscription{Topic: s.Topic, DeadLetterTopic: s.Dead.Topic, MaxAttempts: s.Dead.Attempts}, err
}

// Region returns the region of Options.
func (c *Client) Region(ctx context.Context) (cloud.Region, error) {
	var answer struct {
		Zones  []string `json:"zones"` // URLs
		Quotas []struct {
			Metric string  `json:"metric"`
			Limit  float64 `json:"limit"`
			Usage  float64 `json:"usage"`
		} `json:"quotas"`
	}

	fields := url.Values{"fields": {"zones,quotas"}}
	err := c.read(ctx, "compute.googleapis.com", path("/compute/v1/projects/%s/regions/%s", c.opts.Project,
		c.opts.Location), fields, nil, &answer)
	if err != nil {
		return cloud.Region{}, err
	}

	r := cloud.Region{Quotas: map[string]cloud.Quota{}}
	for _, z := range answer.Zones {
		r.Zones = append(r.Zones, z[strings.LastIndexByte(z, '/')+1:])
	}
	slices.Sort(r.Zones)
	for _, q := range answer.Quotas {
		r.Quotas[q.Metric] = cloud.Quota{Limit: q.Limit, Usage: q.Usage}
	}
	return r, nil
}

// Offered returns nil if the zone offers the machine type, else cloud.ErrNotThere.
func (c *Client) Offered(ctx context.Context, zone, machineType string) error {
	var m struct{}
	return c.read(ctx, "compute.googleapis.com", path("/compute/v1/projects/%s/zones/%s/machineTypes/%s",
		c.opts.Project, zone, machineType),
		url.Values{"fields": {"name"}}, nil, &m)
}

// Image returns nil if the image exists.
func (c *Client) Image(ctx context.Context, i cloud.Image) error {
	what := path("/v1/projects/%s/locations/%s/repositories/%s/packages/%s", i.Project, i.Location, i.Repository,
		i.Name)
	if i.Digest != "" {
		what += path("/versions/%s", i.Digest)
	} else {
		what += path("/tags/%s", i.Tag)
	}
	var found struct{}
	return c.read(ctx, "artifactregistry.googleapis.com", what, nil, nil, &found)
}
