package page

import (
	"slices"
	"strings"
)

// hostNames are machines' names as drawings have them: what all begin with, up to a hyphen or a dot, says nothing and
// would push out what tells them apart, which stands at the end.
type hostNames struct{ cut int }

// shortHost is how long a name may be that is drawn whole.
const shortHost = 12

func newHostNames(hosts []string) hostNames {
	hosts = slices.Compact(slices.Sorted(slices.Values(hosts)))
	if len(hosts) < 2 || !slices.ContainsFunc(hosts, func(h string) bool { return len(h) > shortHost }) {
		return hostNames{}
	}
	first, last := hosts[0], hosts[len(hosts)-1] // sorted: what these share, all share
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return hostNames{strings.LastIndexAny(first[:n], "-.") + 1}
}

// of is the name of one of them, "machine" before what is not a whole one.
func (h hostNames) of(host string) string {
	if h.cut == 0 || h.cut >= len(host) {
		return host
	}
	return "machine " + host[h.cut:]
}
