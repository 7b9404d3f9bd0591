//go:build unix

package gcsemu

import (
	"net"
	"net/http"
)

// door returns the address at which a request came in.
func door(r *http.Request) net.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return &net.TCPAddr{}
	}
	return addr
}

// need is a permission on a bucket.
type need struct{ bucket, permission string }

// needs returns the permissions that the service requires, except that for overwriting, which is known only when an
// object is complete.
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
		verb := map[string]string{http.MethodPost: "create", http.MethodDelete: "delete", http.MethodPatch: "update",
			http.MethodPut: "update"}[r.Method]
		if verb == "" {
			verb = "get"
		}
		return []need{{c.bucket, "storage.buckets." + verb}}
	case kindCompose:
		return []need{{c.bucket, "storage.objects.get"}, {c.bucket, "storage.objects.create"}}
	case kindCopy:
		return []need{{c.from, "storage.objects.get"}, {c.bucket, "storage.objects.create"}}
	case kindChange:
		if r.Method == http.MethodDelete {
			return []need{{c.bucket, "storage.objects.delete"}}
		}
		return []need{{c.bucket, "storage.objects.update"}}
	}

	return nil // health, and the rest of an upload that was allowed to begin
}

// authorize refuses calls that the caller has no right to make.
func (s *Server) authorize(c call, r *http.Request) *response {
	for _, n := range needs(c, r) {
		if err := s.allow(door(r), "bucket", n.bucket, n.permission); err != nil {
			return answer(http.StatusForbidden, err.Error())
		}
	}
	return nil
}
