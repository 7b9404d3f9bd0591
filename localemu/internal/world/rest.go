package world

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"coppice/localemu/internal/httpjson"
)

// The REST calls with which `launcher doctor` examines a project: who is calling, who may do what, and which buckets,
// topics and subscriptions there are. A call of https://SERVICE/PATH is answered at http://ADDRESS/SERVICE/PATH.
//
// Not imitated, and answered with 501: enabled services, regions, quotas, machine types, images, and every call that
// changes anything. Policies are those of the table of rights and have no conditions and no etags; a bucket has a name
// and a place and no other settings. There are no tokens: the caller's identity follows from the address that is
// called, and tokeninfo always returns it, where Google's leaves the e-mail address out for a token without the scope
// userinfo.email.

// maxBody bounds a request: the longest lists permissions.
const maxBody = 64 << 10

// routes are the imitated calls.
func (w *World) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(to http.ResponseWriter, r *http.Request) { answerREST(to, r, answer) })
	}

	handle("/oauth2.googleapis.com/tokeninfo", func(r *http.Request) (any, error) {
		return map[string]any{"email": w.guard.email(w.guard.at(httpjson.Address(r)))}, nil
	})
	handle("/cloudresourcemanager.googleapis.com/v1/projects/{last}", w.restProject)

	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}", w.restBucket)
	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}/iam/testPermissions", func(r *http.Request) (any, error) {
		return w.restTest(r, "bucket", r.PathValue("bucket"), r.URL.Query()["permissions"])
	})
	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}/iam", func(r *http.Request) (any, error) {
		return w.restPolicy(r, "bucket", r.PathValue("bucket"), "storage.buckets.getIamPolicy")
	})

	handle("/pubsub.googleapis.com/v1/projects/{project}/topics/{last}", w.restTopic)
	handle("/pubsub.googleapis.com/v1/projects/{project}/subscriptions/{last}", w.restSubscription)
	handle("/iam.googleapis.com/v1/projects/{project}/serviceAccounts/{last}", w.restAccount)
	handle("/artifactregistry.googleapis.com/v1/projects/{project}/locations/{location}/repositories/{last}",
		w.restRepository)

	handle("/", func(r *http.Request) (any, error) {
		return nil, httpjson.NotImitated(r)
	})
	return mux
}

// answerREST sends the answer to a call, or the error in the services' form.
func answerREST(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	err := httpjson.Foreign(r)
	if err == nil {
		var body any
		if body, err = answer(r); err == nil {
			httpjson.Reply(w, http.StatusOK, body)
			return
		}
	}
	if status.Code(err) == codes.NotFound { // of Pub/Sub
		err = httpjson.Errorf(http.StatusNotFound, "%s", status.Convert(err).Message())
	}
	httpjson.Fail(w, err)
}

// restTest answers testIamPermissions: the given permissions that the caller has.
func (w *World) restTest(r *http.Request, kind, name string, permissions []string) (any, error) {
	if permissions == nil {
		var body struct {
			Permissions []string `json:"permissions"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body); err != nil {
			return nil, httpjson.Errorf(http.StatusBadRequest, "permissions: %v", err)
		}
		permissions = body.Permissions
	}

	held := []string{}
	for _, p := range permissions {
		if w.guard.Allow(httpjson.Address(r), kind, name, p) == nil {
			held = append(held, p)
		}
	}
	return map[string]any{"permissions": held}, nil
}

func (w *World) restMay(r *http.Request, kind, name, permission string) error {
	if err := w.guard.Allow(httpjson.Address(r), kind, name, permission); err != nil {
		return httpjson.Errorf(http.StatusForbidden, "%v", err)
	}
	return nil
}

// restPolicy answers getIamPolicy.
func (w *World) restPolicy(r *http.Request, kind, name, permission string) (any, error) {
	if err := w.restMay(r, kind, name, permission); err != nil {
		return nil, err
	}

	type binding struct {
		Role    string   `json:"role"`
		Members []string `json:"members"`
	}

	roles := w.guard.policy(kind, name)
	bindings := []binding{}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		bindings = append(bindings, binding{role, roles[role]})
	}
	return map[string]any{"version": 1, "bindings": bindings}, nil
}

// restVerbs answers NAME:testIamPermissions and NAME:getIamPolicy; without a verb, get answers.
func (w *World) restVerbs(r *http.Request, kind, parent, getPolicy string, get func(name string) (any, error)) (any,
	error) {
	last, verb, _ := strings.Cut(r.PathValue("last"), ":")
	name := parent + last
	switch {
	case verb == "testIamPermissions" && r.Method == http.MethodPost:
		return w.restTest(r, kind, name, nil)
	case verb == "getIamPolicy":
		return w.restPolicy(r, kind, name, getPolicy)
	case verb == "" && r.Method == http.MethodGet && get != nil:
		return get(name)
	}
	return nil, httpjson.NotImitated(r)
}

func (w *World) restProject(r *http.Request) (any, error) {
	if last, _, _ := strings.Cut(r.PathValue("last"), ":"); last != project {
		return nil, httpjson.Errorf(http.StatusForbidden,
			"The caller does not have permission on project %s (or it may not exist).", last)
	}
	return w.restVerbs(r, "project", "", "resourcemanager.projects.getIamPolicy", func(name string) (any, error) {
		if err := w.restMay(r, "project", name, "resourcemanager.projects.get"); err != nil {
			return nil, err
		}
		return map[string]any{"projectId": name, "projectNumber": projectNumber, "lifecycleState": "ACTIVE"}, nil
	})
}

func (w *World) restBucket(r *http.Request) (any, error) {
	name := r.PathValue("bucket")
	if err := w.restMay(r, "bucket", name, "storage.buckets.get"); err != nil {
		return nil, err
	}
	if !w.storage.HasBucket(name) {
		return nil, httpjson.Errorf(http.StatusNotFound, "The specified bucket does not exist.")
	}
	return map[string]any{"kind": "storage#bucket", "name": name, "location": strings.ToUpper(location),
		"locationType": "region"}, nil
}

// message is a resource of Pub/Sub in its REST form.
func message(m proto.Message, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	data, err := protojson.Marshal(m)
	return json.RawMessage(data), err
}

func (w *World) restTopic(r *http.Request) (any, error) {
	return w.restVerbs(r, "topic", "projects/"+r.PathValue("project")+"/topics/", "pubsub.topics.getIamPolicy",
		func(name string) (any, error) {
			if err := w.restMay(r, "topic", name, "pubsub.topics.get"); err != nil {
				return nil, err
			}
			return message(w.pubsub.Topic(r.Context(), name))
		})
}

func (w *World) restSubscription(r *http.Request) (any, error) {
	return w.restVerbs(r, "subscription", "projects/"+r.PathValue("project")+"/subscriptions/",
		"pubsub.subscriptions.getIamPolicy", func(name string) (any, error) {
			if err := w.restMay(r, "subscription", name, "pubsub.subscriptions.get"); err != nil {
				return nil, err
			}
			return message(w.pubsub.Subscription(r.Context(), name))
		})
}

func (w *World) restAccount(r *http.Request) (any, error) {
	return w.restVerbs(r, "account", "", "iam.serviceAccounts.getIamPolicy", nil)
}

// restRepository is the only one, for all images.
func (w *World) restRepository(r *http.Request) (any, error) {
	_, verb, _ := strings.Cut(r.PathValue("last"), ":")
	r.SetPathValue("last", "images:"+verb)
	return w.restVerbs(r, "repository", "", "artifactregistry.repositories.getIamPolicy", nil)
}
