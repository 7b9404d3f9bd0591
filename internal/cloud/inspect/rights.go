package inspect

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"coppice/internal/cloud"
)

// endpoint is where to query a resource's permissions. Services differ in whether they use GET or POST.
type endpoint struct {
	service string
	path    string     // of the resource
	policy  url.Values // for reading the policy by GET; nil for POST
}

// endpointOf finds it. Names are unchecked input: invalid ones are rejected.
func (c *Client) endpointOf(r cloud.Resource) (endpoint, error) {
	version := url.Values{"options.requestedPolicyVersion": {"3"}} // otherwise conditions would be left out
	var full string

	switch r.Kind {
	case "project":
		return endpoint{"cloudresourcemanager.googleapis.com", path("/v1/projects/%s", r.Name), nil}, nil
	case "bucket":
		return endpoint{"storage.googleapis.com", path("/storage/v1/b/%s/iam", r.Name),
			url.Values{"optionsRequestedPolicyVersion": {"3"}}}, nil
	case "account":
		project := c.opts.Project
		if at := strings.SplitN(r.Name, "@", 2); len(at) == 2 && strings.HasSuffix(at[1], ".iam.gserviceaccount.com") {
			project = strings.TrimSuffix(at[1], ".iam.gserviceaccount.com")
		}
		return endpoint{"iam.googleapis.com", path("/v1/projects/%s/serviceAccounts/%s", project, r.Name), nil}, nil
	case "topic", "subscription":
		parts := strings.Split(r.Name, "/")
		if len(parts) == 4 && parts[0] == "projects" && parts[2] == r.Kind+"s" {
			return endpoint{"pubsub.googleapis.com", path("/v1/projects/%s/"+r.Kind+"s/%s", parts[1], parts[3]),
					version},
				nil
		}
		full = "projects/PROJECT/" + r.Kind + "s/NAME"
	case "repository":
		parts := strings.Split(r.Name, "/")
		if len(parts) == 6 && parts[0] == "projects" && parts[2] == "locations" && parts[4] == "repositories" {
			return endpoint{"artifactregistry.googleapis.com", path("/v1/projects/%s/locations/%s/repositories/%s",
				parts[1], parts[3], parts[5]), version}, nil
		}
		full = "projects/PROJECT/locations/LOCATION/repositories/NAME"
	default:
		return endpoint{}, fmt.Errorf("no rights are read of a %q", r.Kind)
	}
	return endpoint{}, fmt.Errorf("%.200q is not %s", r.Name, full)
}

// Held returns those of the permissions that the caller has on the resource.
func (c *Client) Held(ctx context.Context, r cloud.Resource, permissions []string) ([]string, error) {
	d, err := c.endpointOf(r)
	if err != nil {
		return nil, err
	}

	var held struct {
		Permissions []string `json:"permissions"`
	}

	if r.Kind == "bucket" {
		err = c.read(ctx, d.service, d.path+"/testPermissions", url.Values{"permissions": permissions}, nil, &held)
	} else {
		err = c.read(ctx, d.service, d.path+":testIamPermissions", nil, map[string]any{"permissions": permissions},
			&held)
	}
	return held.Permissions, err
}

// Policy returns the policy of exactly this resource, without inherited bindings. Conditional bindings are left out:
// whether they apply cannot be determined.
func (c *Client) Policy(ctx context.Context, r cloud.Resource) (cloud.Policy, error) {
	d, err := c.endpointOf(r)
	if err != nil {
		return nil, err
	}

	var answer struct {
		Bindings []struct {
			Role      string   `json:"role"`
			Members   []string `json:"members"`
			Condition *struct {
				Expression string `json:"expression"`
			} `json:"condition"`
		} `json:"bindings"`
	}

	switch {
	case r.Kind == "bucket":
		err = c.read(ctx, d.service, d.path, d.policy, nil, &answer)
	case d.policy != nil:
		err = c.read(ctx, d.service, d.path+":getIamPolicy", d.policy, nil, &answer)
	default:
		err = c.read(ctx, d.service, d.path+":getIamPolicy", nil,
			map[string]any{"options": map[string]any{"requestedPolicyVersion": 3}}, &answer)
	}

	if err != nil {
		return nil, err
	}

	policy := cloud.Policy{}
	for _, b := range answer.Bindings {
		if b.Condition == nil {
			policy[b.Role] = append(policy[b.Role], b.Members...)
		}
	}
	return policy, nil
}
