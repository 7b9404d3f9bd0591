// Package terraform reads the deployment's table of permissions: who may do what on which resource, and why. The table
// is the file iam.yaml in this folder, from which Terraform makes every binding, so that what the doctor checks is what
// is deployed. roles.yaml lists the permissions of each role, as far as needed here.
package terraform

import (
	_ "embed" // the two tables
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"coppice/internal/strictyaml"
)

//go:embed iam.yaml
var iamYAML []byte

//go:embed roles.yaml
var rolesYAML []byte

// Kind is the kind of an identity.
type Kind string

// The kinds of identities.
const (
	Account Kind = "account" // a service account of the deployment
	Agent   Kind = "agent"   // a service account of Google, one per project
	People  Kind = "people"  // the members listed in a variable of the deployment
)

// The identities of Coppice's programs.
const (
	Launcher   = "launcher"
	Task       = "task"
	Stager     = "stager"
	Aggregator = "aggregator"
)

// The resources that Coppice's programs use, as named in a Binding.
const (
	Project            = "project"
	DatasetsBucket     = "bucket/datasets"
	SweepsBucket       = "bucket/sweeps"
	RegistryBucket     = "bucket/registry"
	SourceBuckets      = "bucket/sources"     // those that tables are staged from
	SourceDatasets     = "dataset/sources"    // of BigQuery, likewise
	Queries            = "project/queries"    // the project, where BigQuery is used
	Checkpoints        = "object/checkpoints" // of the sweeps bucket, by a condition on their names
	ScoresTopic        = "topic/scores"
	JobsTopic          = "topic/jobs"
	VerdictsTopic      = "topic/verdicts"
	Webhook            = "secret/webhook" // holds its URL
	ScoresSubscription = "subscription/scores"
	TaskAccount        = "account/task"
	StagerAccount      = "account/stager"
	Images             = "repository/images"
)

// Identity is an account or group of people.
type Identity struct {
	Kind   Kind   `yaml:"kind"`
	Domain string `yaml:"domain"` // of an agent's e-mail address service-NUMBER@DOMAIN
	Why    string `yaml:"why"`
}

// Binding grants an identity one role on one resource.
type Binding struct {
	Identity string `yaml:"identity"`
	Resource string `yaml:"resource"` // "project", or KIND/NAME such as bucket/sweeps
	Role     string `yaml:"role"`
	Why      string `yaml:"why"`
}

func (b Binding) String() string { return b.Role + " on " + b.Resource + " for " + b.Identity }

// Table is the whole table. It is immutable after Load.
type Table struct {
	Identities map[string]Identity
	Bindings   []Binding           // in the order of the file
	Roles      map[string][]string // permissions by role, ascending
}

// Load reads the embedded table. An error means that the file itself is wrong.
func Load() (*Table, error) { return parseTable(iamYAML, rolesYAML) }

// parseTable reads the table and what its roles permit from the texts of iam.yaml and roles.yaml. It is an error, with
// the place in the file, if an identity or binding is wrong, as checkIdentity and checkBinding say, or if a binding is
// there twice, whatever its reasons.
func parseTable(iam, roles []byte) (*Table, error) {
	var grants struct {
		Identities map[string]Identity `yaml:"identities"`
		Bindings   []Binding           `yaml:"bindings"`
	}
	doc, err := strictyaml.Decode("iam.yaml", iam, &grants)
	if err != nil {
		return nil, err
	}

	var permits map[string][]string
	if _, err := strictyaml.Decode("roles.yaml", roles, &permits); err != nil {
		return nil, err
	}
	t := &Table{Identities: grants.Identities, Bindings: grants.Bindings, Roles: map[string][]string{}}
	for role, permissions := range permits {
		t.Roles[role] = slices.Sorted(slices.Values(permissions))
	}

	for _, name := range slices.Sorted(maps.Keys(t.Identities)) { // sorted, so that the same error comes each time
		if wrong := checkIdentity(t.Identities[name]); wrong != "" {
			return nil, doc.Errorf("identities."+name, "%s: %s", name, wrong)
		}
	}

	seen := map[Binding]bool{}
	for i, b := range t.Bindings {
		bare := Binding{Identity: b.Identity, Resource: b.Resource, Role: b.Role}
		wrong := t.checkBinding(b)
		if wrong == "" && seen[bare] {
			wrong = "it is there twice"
		}
		if wrong != "" {
			return nil, doc.Errorf(fmt.Sprintf("bindings[%d]", i), "%s: %s", b, wrong)
		}
		seen[bare] = true
	}

	return t, nil
}

// Of returns the bindings of an identity, in the order of the table.
func (t *Table) Of(identity string) []Binding {
	var of []Binding
	for _, b := range t.Bindings {
		if b.Identity == identity {
			of = append(of, b)
		}
	}
	return of
}

var (
	domainPattern = regexp.MustCompile(`^[a-z0-9-]+\.iam\.gserviceaccount\.com$`)
	rolePattern   = regexp.MustCompile(`^(roles/[a-z]+\.[A-Za-z]+|custom/[a-z]+)$`)
)

// resources lists the names of each kind except accounts, which are the identities of that kind.
var resources = []string{
	Project, DatasetsBucket, SweepsBucket, RegistryBucket, SourceBuckets, SourceDatasets, Queries,
	Checkpoints, ScoresTopic, JobsTopic, VerdictsTopic, "topic/dead_letters", ScoresSubscription,
	"subscription/jobs", "subscription/dead_letters", Images, Webhook, "service/aggregator", "service/server",
	"job/launcher",
	"key/coppice", "subnetwork/machines",
}

// checkIdentity returns what is wrong with an identity, "" if nothing is. It needs a known kind and a reason, and if it
// is an agent also the domain of its e-mail address.
func checkIdentity(i Identity) (wrong string) {
	switch {
	case !slices.Contains([]Kind{Account, Agent, People}, i.Kind):
		return fmt.Sprintf("kind is %q; it is one of account, agent, people", i.Kind)
	case (i.Kind == Agent) != domainPattern.MatchString(i.Domain):
		return fmt.Sprintf("domain is %q; an agent has one, the others have none", i.Domain)
	case i.Why == "":
		return "why is missing"
	}
	return ""
}

// checkBinding returns what is wrong with a binding, "" if nothing is. It needs an identity and a role of the table, a
// known resource or one of the table's accounts, and a reason. Primitive roles such as roles/editor match no pattern,
// since they permit far too much.
func (t *Table) checkBinding(b Binding) (wrong string) {
	account, isAccount := strings.CutPrefix(b.Resource, "account/")
	known := slices.Contains(resources, b.Resource) || isAccount && t.Identities[account].Kind == Account
	switch {
	case t.Identities[b.Identity].Kind == "":
		return "there is no such identity" + strictyaml.Suggest(b.Identity, slices.Sorted(maps.Keys(t.Identities)))
	case !known:
		return "there is no such resource" + strictyaml.Suggest(b.Resource, resources)
	case !rolePattern.MatchString(b.Role):
		return "roles/SERVICE.ROLE or custom/NAME is wanted: roles/owner, roles/editor and roles/viewer permit far " +
			"too much"
	case len(t.Roles[b.Role]) == 0:
		return "roles.yaml does not say what the role permits" +
			strictyaml.Suggest(b.Role, slices.Sorted(maps.Keys(t.Roles)))
	case b.Why == "":
		return "why is missing"
	}

	return ""
}
