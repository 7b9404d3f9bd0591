//go:build unix

// Package restemu answers the REST calls with which `launcher doctor` examines a project: who is calling, who may do
// what, and which buckets, topics and subscriptions there are. A call of https://SERVICE/PATH is answered at
// http://ADDRESS/SERVICE/PATH.
//
// Not imitated, and answered with 501: enabled services, regions, quotas, machine types, images, and every call that
// changes anything. Policies are those of the local cloud's table of rights and have no conditions and no etags; a
// bucket has a name and a place and no other settings. There are no tokens: the caller's identity follows from the
// address that is called, and tokeninfo always returns it, where Google's leaves the e-mail address out for a token
// without the scope userinfo.email.
package restemu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Rights decide who may do what.
type Rights interface {
	// Caller returns the e-mail address of the callers of the address.
	Caller(at net.Addr) string
	// Allow returns nil if the caller of the address has the permission.
	Allow(at net.Addr, kind, name, permission string) error
	// Policy returns the roles on exactly this resource, each with its members.
	Policy(kind, name string) map[string][]string
}

// Resources are what exists in the local cloud.
type Resources interface {
	Bucket(name string) bool
	// Topic and Subscription return the service's gRPC errors if there is none.
	Topic(ctx context.Context, name string) (*pubsubpb.Topic, error)
	Subscription(ctx context.Context, name string) (*pubsubpb.Subscription, error)
}

// Options say what to answer.
type Options struct {
	Project   string
	Number    string // of the project
	Location  string
	Rights    Rights
	Resources Resources
	Log       *slog.Logger
}

// Server is the emulator.
type Server struct {
	opts   Options
	addr   string
	http   *http.Server
	served sync.WaitGroup
}

// Start serves on the listener until Close.
func Start(l net.Listener, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, addr: l.Addr().String()}
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.Open(l)
	return s
}

// Open serves at another address as well.
func (s *Server) Open(l net.Listener) {
	s.served.Go(func() {
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.opts.Log.Error("REST emulator ended", "error", err)
		}
	})
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Close ends all connections. A second Close does nothing.
func (s *Server) Close() {
	s.http.Close()
	s.served.Wait()
}

// failure is an error in the form of Google's APIs.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// maxBody bounds a request: the longest lists permissions.
const maxBody = 64 << 10

// routes are the imitated calls.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.reply(w, r, answer) })
	}

	handle("/oauth2.googleapis.com/tokeninfo", func(r *http.Request) (any, error) {
		return map[string]any{"email": s.opts.Rights.Caller(door(r))}, nil
	})
	handle("/cloudresourcemanager.googleapis.com/v1/projects/{last}", s.project)

	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}", s.bucket)
	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}/iam/testPermissions", func(r *http.Request) (any, error) {
		return s.test(r, "bucket", r.PathValue("bucket"), r.URL.Query()["permissions"])
	})
	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}/iam", func(r *http.Request) (any, error) {
		return s.policy(r, "bucket", r.PathValue("bucket"), "storage.buckets.getIamPolicy")
	})

	handle("/pubsub.googleapis.com/v1/projects/{project}/topics/{last}", s.topic)
	handle("/pubsub.googleapis.com/v1/projects/{project}/subscriptions/{last}", s.subscription)
	handle("/iam.googleapis.com/v1/projects/{project}/serviceAccounts/{last}", s.account)
	handle("/artifactregistry.googleapis.com/v1/projects/{project}/locations/{location}/repositories/{last}",
		s.repository)

	handle("/", func(r *http.Request) (any, error) {
		return nil, &failure{http.StatusNotImplemented, "localemu does not imitate " + r.Method + " " + r.URL.Path}
	})
	return mux
}

// door returns the address at which a request came in.
func door(r *http.Request) net.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return &net.TCPAddr{}
	}
	return addr
}

// reply sends the answer, or the error in the services' form. Web pages may not call the local cloud.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")

	var body any
	var err error
	if r.Header.Get("Origin") != "" || r.Host != door(r).String() {
		err = &failure{http.StatusForbidden, "requests from web pages and under other names than " + door(r).String() +
			" are refused"}
	} else {
		body, err = answer(r)
	}

	var f *failure
	if err != nil && !errors.As(err, &f) {
		f = &failure{http.StatusInternalServerError, err.Error()}
		if status.Code(err) == codes.NotFound {
			f = &failure{http.StatusNotFound, status.Convert(err).Message()}
		}
	}

	if f != nil {
		names := map[int]string{http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
			http.StatusNotImplemented: "UNIMPLEMENTED", http.StatusBadRequest: "INVALID_ARGUMENT"}
		w.WriteHeader(f.code)
		body = map[string]any{"error": map[string]any{"code": f.code, "message": f.text, "status": names[f.code]}}
	}

	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.opts.Log.Debug("answer", "error", err)
	}
}

// test answers testIamPermissions: the given permissions that the caller has.
func (s *Server) test(r *http.Request, kind, name string, permissions []string) (any, error) {
	if permissions == nil {
		var body struct {
			Permissions []string `json:"permissions"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body); err != nil {
			return nil, &failure{http.StatusBadRequest, "permissions: " + err.Error()}
		}
		permissions = body.Permissions
	}

	held := []string{}
	for _, p := range permissions {
		if s.opts.Rights.Allow(door(r), kind, name, p) == nil {
			held = append(held, p)
		}
	}
	return map[string]any{"permissions": held}, nil
}

func (s *Server) may(r *http.Request, kind, name, permission string) error {
	if err := s.opts.Rights.Allow(door(r), kind, name, permission); err != nil {
		return &failure{http.StatusForbidden, err.Error()}
	}
	return nil
}

// policy answers getIamPolicy.
func (s *Server) policy(r *http.Request, kind, name, permission string) (any, error) {
	if err := s.may(r, kind, name, permission); err != nil {
		return nil, err
	}

	type binding struct {
		Role    string   `json:"role"`
		Members []string `json:"members"`
	}

	roles := s.opts.Rights.Policy(kind, name)
	bindings := []binding{}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		bindings = append(bindings, binding{role, roles[role]})
	}
	return map[string]any{"version": 1, "bindings": bindings}, nil
}

// verbs answers NAME:testIamPermissions and NAME:getIamPolicy; without a verb, get answers.
func (s *Server) verbs(r *http.Request, kind, parent, getPolicy string, get func(name string) (any, error)) (any,
	error) {
	last, verb, _ := strings.Cut(r.PathValue("last"), ":")
	name := parent + last
	switch {
	case verb == "testIamPermissions" && r.Method == http.MethodPost:
		return s.test(r, kind, name, nil)
	case verb == "getIamPolicy":
		return s.policy(r, kind, name, getPolicy)
	case verb == "" && r.Method == http.MethodGet && get != nil:
		return get(name)
	}
	return nil, &failure{http.StatusNotImplemented, "localemu does not imitate " + r.Method + " " + r.URL.Path}
}

func (s *Server) project(r *http.Request) (any, error) {
	if last, _, _ := strings.Cut(r.PathValue("last"), ":"); last != s.opts.Project {
		return nil, &failure{http.StatusForbidden, "The caller does not have permission on project " + last +
			" (or it may not exist)."}
	}
	return s.verbs(r, "project", "", "resourcemanager.projects.getIamPolicy", func(name string) (any, error) {
		if err := s.may(r, "project", name, "resourcemanager.projects.get"); err != nil {
			return nil, err
		}
		return map[string]any{"projectId": name, "projectNumber": s.opts.Number, "lifecycleState": "ACTIVE"}, nil
	})
}

func (s *Server) bucket(r *http.Request) (any, error) {
	name := r.PathValue("bucket")
	if err := s.may(r, "bucket", name, "storage.buckets.get"); err != nil {
		return nil, err
	}
	if !s.opts.Resources.Bucket(name) {
		return nil, &failure{http.StatusNotFound, "The specified bucket does not exist."}
	}
	return map[string]any{"kind": "storage#bucket", "name": name, "location": strings.ToUpper(s.opts.Location),
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

func (s *Server) topic(r *http.Request) (any, error) {
	return s.verbs(r, "topic", "projects/"+r.PathValue("project")+"/topics/", "pubsub.topics.getIamPolicy",
		func(name string) (any, error) {
			if err := s.may(r, "topic", name, "pubsub.topics.get"); err != nil {
				return nil, err
			}
			return message(s.opts.Resources.Topic(r.Context(), name))
		})
}

func (s *Server) subscription(r *http.Request) (any, error) {
	return s.verbs(r, "subscription", "projects/"+r.PathValue("project")+"/subscriptions/",
		"pubsub.subscriptions.getIamPolicy", func(name string) (any, error) {
			if err := s.may(r, "subscription", name, "pubsub.subscriptions.get"); err != nil {
				return nil, err
			}
			return message(s.opts.Resources.Subscription(r.Context(), name))
		})
}

func (s *Server) account(r *http.Request) (any, error) {
	return s.verbs(r, "account", "", "iam.serviceAccounts.getIamPolicy", nil)
}

// repository is the only one, for all images.
func (s *Server) repository(r *http.Request) (any, error) {
	_, verb, _ := strings.Cut(r.PathValue("last"), ":")
	r.SetPathValue("last", "images:"+verb)
	return s.verbs(r, "repository", "", "artifactregistry.repositories.getIamPolicy", nil)
}
