package cloud

import (
	"errors"
	"fmt"
	"net"
	"regexp"
)

// What cloud/inspect reads of a project.

// ErrNotThere means that the object does not exist.
var ErrNotThere = errors.New("it does not exist")

// ErrNotImitated means that the local cloud does not emulate this.
var ErrNotImitated = errors.New("the local cloud does not imitate it")

// Resource is something that permissions are granted on.
type Resource struct {
	Kind string // project, bucket or account
	Name string // an account's is its e-mail address
}

func (r Resource) String() string { return r.Kind + " " + r.Name }

// Quota is a project's limit and usage in a region.
type Quota struct{ Limit, Usage float64 }

// CPUsAllRegions is the quota of a project's vCPUs in all regions together: 12 in a new account and 8 on trial.
const CPUsAllRegions = "CPUS_ALL_REGIONS"

// Region is a region of Compute Engine.
type Region struct {
	Zones  []string         // names, ascending
	Quotas map[string]Quota // by metric, such as N2_CPUS
	Unread error            // why the quota of the whole project is not among them; nil if it is
}

// Image is a container image in Artifact Registry.
type Image struct {
	Location, Project, Repository, Name string
	Tag                                 string // latest, if the reference has neither tag nor digest
	Digest                              string // sha256:..., empty for none
}

var imagePattern = regexp.MustCompile(`^([a-z0-9-]+)-docker\.pkg\.dev/([a-z0-9:.-]+)/([a-z0-9-]+)/([A-Za-z0-9_./-]+?)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`)

// ParseImage splits LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME with :TAG or @sha256:DIGEST; ok is false for
// anything else, such as an image in another registry.
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

// Loopback returns a *SetupError unless the endpoint is host:port on this machine: unencrypted connections are limited
// to it.
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
