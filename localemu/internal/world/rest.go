package world

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"coppice/localemu/internal/httpjson"
)

// The keys of the tokens that the aggregator is called with, the REST calls of BigQuery (bigquery.go), and those with
// which `launcher doctor` examines a project: who is calling, what they may do, and which buckets and topics exist. A
// call of https://SERVICE/PATH is answered at http://ADDRESS/SERVICE/PATH. Everybody is the owner of the local cloud,
// and may do everything.
//
// Not imitated, and answered with 501: enabled services, regions, quotas but that of FaultSpec, machine types, images,
// and every call that changes anything.

// maxBody bounds a request: the longest lists permissions.
const maxBody = 64 << 10

// routes returns the handler of all imitated REST calls, each under the host name of its service: the keys of tokens,
// what launcher doctor asks, and BigQuery. All other calls are answered with 501.
func (w *World) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(to http.ResponseWriter, r *http.Request) { answerREST(to, r, answer) })
	}

	handle("GET "+keysPath, w.restKeys)
	handle("POST /oauth2.googleapis.com/tokeninfo", func(*http.Request) (any, error) {
		return map[string]any{"email": "owner@example.com"}, nil
	})
	handle("POST /cloudresourcemanager.googleapis.com/v1/projects/"+project+":testIamPermissions", restTest)
	// A pattern cannot go on behind {account}, so restTest looks for the verb at its end.
	handle("POST /iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}", restTest)
	handle("GET /storage.googleapis.com/storage/v1/b/{bucket}/iam/testPermissions", func(r *http.Request) (any, error) {
		name := r.PathValue("bucket")
		if !w.storage.HasBucket(name) {
			return nil, httpjson.Errorf(http.StatusNotFound, "The specified bucket does not exist.")
		}
		return map[string]any{"permissions": r.URL.Query()["permissions"]}, nil
	})
	handle("GET /pubsub.googleapis.com/v1/projects/{project}/topics/{topic}", w.restTopic)

	// A quota and the zones, only if a fault sets the quota.
	if limit := w.opts.Faults.CPUs; limit > 0 {
		compute := "GET /compute.googleapis.com/compute/v1/projects/" + project
		handle(compute, func(*http.Request) (any, error) {
			return map[string]any{"quotas": []any{map[string]any{"metric": "CPUS_ALL_REGIONS", "limit": limit}}}, nil
		})
		handle(compute+"/regions/{region}", func(r *http.Request) (any, error) {
			return map[string]any{"zones": []string{r.PathValue("region") + "-a"}}, nil
		})
	}

	q := &warehouse{filepath.Join(w.data, "bigquery"), w.storage.Addr()}
	bigQuery := "/bigquery.googleapis.com/bigquery/v2/projects/{project}"
	handle("POST "+bigQuery+"/jobs", q.insert)
	handle("GET "+bigQuery+"/queries/{job}", func(*http.Request) (any, error) {
		return map[string]any{"jobComplete": true}, nil
	})
	handle("GET "+bigQuery+"/datasets/{dataset}/tables/{table}", q.table)
	handle("/", func(r *http.Request) (any, error) {
		return nil, httpjson.NotImitated(r)
	})
	return mux
}

// answerREST calls answer and sends its value as JSON, or its error in the form of Google's services. A request that
// does not come from a client of the local cloud is refused without calling it.
func answerREST(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	err := httpjson.Foreign(r)
	if err == nil {
		var body any
		if body, err = answer(r); err == nil {
			httpjson.Reply(w, http.StatusOK, body)
			return
		}
	}
	if status.Code(err) == codes.NotFound { // from the Pub/Sub emulator, which has gRPC's errors
		err = httpjson.Errorf(http.StatusNotFound, "%s", status.Convert(err).Message())
	}
	httpjson.Fail(w, err)
}

// restTest answers testIamPermissions: it repeats the permissions of the request, so the caller has all of them.
func restTest(r *http.Request) (any, error) {
	if !strings.HasSuffix(r.URL.Path, ":testIamPermissions") {
		return nil, httpjson.NotImitated(r)
	}
	var body struct {
		Permissions []string `json:"permissions"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body); err != nil {
		return nil, httpjson.Errorf(http.StatusBadRequest, "permissions: %v", err)
	}
	return body, nil
}

// restTopic answers with a topic's name, or NOT_FOUND if there is no such topic.
func (w *World) restTopic(r *http.Request) (any, error) {
	name := "projects/" + r.PathValue("project") + "/topics/" + r.PathValue("topic")
	_, err := w.pubsub.Topic(r.Context(), name)
	return map[string]any{"name": name}, err
}
