package cloud

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"
)

// What can be read of a project by whoever examines it before anything is created there (cloud/inspect reads it).

// ErrNotThere means that what was asked about does not exist.
var ErrNotThere = errors.New("it does not exist")

// ErrNotImitated means that the local cloud has no such thing.
var ErrNotImitated = errors.New("the local cloud does not imitate it")

// Resource is something that rights are given on.
type Resource struct {
	Kind string // project, bucket, topic, subscription, account or repository
	Name string // of a bucket its name, of an account its e-mail address, of the others what comes in projects/...; of a project its id
}

func (r Resource) String() string { return r.Kind + " " + r.Name }

// Policy are the members that have a role without any condition, by role.
type Policy map[string][]string

// Bucket is a bucket's settings.
type Bucket struct {
	Location        string // a region in small letters, or a dual-region or multi-region
	Uniform         bool   // access is decided by the bucket's policy alone
	PublicPrevented bool
	Versioned       bool
	SoftDelete      time.Duration // how long what was deleted is kept, and billed
}

// Subscription is a subscription's settings.
type Subscription struct {
	Topic           string // full name
	DeadLetterTopic string // full name; empty without
	MaxAttempts     int    // before a message is a dead letter
}

// Quota is how much of something a project may use in a region.
type Quota struct{ Limit, Usage float64 }

// Region is a region of Compute Engine.
type Region struct {
	Zones  []string         // names, ascending
	Quotas map[string]Quota // by metric, such as N2_CPUS
}

// Image is a container image in Artifact Registry.
type Image struct {
	Location, Project, Repository, Name string
	Tag                                 string // latest, where the reference names neither
	Digest                              string // sha256:..., empty without
}

var imagePattern = regexp.MustCompile(`^([a-z0-9-]+)-docker\.pkg\.dev/([a-z0-9:.-]+)/([a-z0-9-]+)/([A-Za-z0-9_./-]+?)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`)

// ParseImage takes LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME with :TAG or @sha256:DIGEST apart; ok is false for everything
// else, such as an image in another registry.
func ParseImage(reference string) (i Image, ok bool) {
	m := imagePattern.FindStringSubmatch(reference)
	if m == nil {
		return Image{}, false
	}
	i = Image{Location: m[1], Project: m[2], Repository: m[3], Name: m[4], Tag: m[5], Digest: m[6]}
	if i.Tag == "" && i.Digest == "" {
		i.Tag = "latest"
	}
	return i, true
}

// Kept is the repository in which the image is.
func (i Image) Kept() Resource {
	return Resource{Kind: "repository", Name: "projects/" + i.Project + "/locations/" + i.Location + "/repositories/" + i.Repository}
}

// Loopback is a *SetupError unless the endpoint is host:port on this machine: nobody else is spoken to without encryption.
func Loopback(variable, endpoint string) error {
	host, _, err := net.SplitHostPort(endpoint)
	ip := net.ParseIP(host)
	if err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return &SetupError{
		What: fmt.Sprintf("the endpoint %.100q is not host:port on this machine", endpoint),
		Hint: variable + " is for the local cloud only; unset it to use Google Cloud",
		Err:  err,
	}
}
