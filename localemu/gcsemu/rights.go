//go:build unix

package gcsemu

import (
	"net"
	"net/http"
	"strings"
)

// door is the address at which a request came in.
func door(r *http.Request) net.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return &net.TCPAddr{}
	}
	return addr
}

// need is a permission on a bucket.
type need struct{ bucket, permission string }

// needs are the permissions that the service asks for; what an upload overwrites is known when it is complete.
// Source: https://cloud.google.com/storage/docs/access-control/iam-json
func needs(c call, r *http.Request) []need {
	switch c.kind {
	case kindList:
		return []need{{c.bucket, "storage.objects.list"}}
	case kindMetadata, kindContents:
		return []need{{c.bucket, "storage.objects.get"}}
	case kindUpload:
		return []need{{c.bucket, "storage.objects.create"}}
	case kindBuckets:
		verb := map[string]string{http.MethodPost: "create", http.MethodDelete: "delete", http.MethodPatch: "update", http.MethodPut: "update"}[r.Method]
		if verb == "" {
			verb = "get"
		}
		return []need{{c.bucket, "storage.buckets." + verb}}
	case kindChange:
		switch {
		case r.Method == http.MethodDelete:
			return []need{{c.bucket, "storage.objects.delete"}}
		case c.source != "":
			return []need{{c.from, "storage.objects.get"}, {c.bucket, "storage.objects.create"}}
		case strings.HasSuffix(r.URL.Path, "/compose"):
			return []need{{c.bucket, "storage.objects.get"}, {c.bucket, "storage.objects.create"}}
		}
		return []need{{c.bucket, "storage.objects.update"}}
	}

	return nil // health, and what belongs to an upload that was allowed to begin
}

// authorize refuses what the caller has no right to. That a copy or a composition overwrites is not looked at.
func (s *Server) authorize(c call, r *http.Request) *response {
	for _, n := range needs(c, r) {
		if err := s.allow(door(r), "bucket", n.bucket, n.permission); err != nil {
			return answer(http.StatusForbidden, err.Error())
		}
	}
	return nil
}
