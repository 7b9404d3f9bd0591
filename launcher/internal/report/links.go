package report

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"coppice/internal/page"
	"coppice/internal/sweep"
)

// links returns Google Cloud's own pages about a sweep: all logs of its programs since it was planned, and its first
// Batch job. A plan whose job name has another form has none.
func links(p *sweep.Plan) []page.Link {
	part := strings.Split(p.Job, "/")
	if len(part) != 6 || part[0] != "projects" || part[2] != "locations" || part[4] != "jobs" {
		return nil
	}
	project, location, job := "?project="+url.QueryEscape(part[1]), url.PathEscape(part[3]), url.PathEscape(part[5])
	const console = "https://console.cloud.google.com/"
	query := fmt.Sprintf("jsonPayload.sweep=%q AND timestamp>=%q", p.Sweep, p.Created.UTC().Format(time.RFC3339))
	return []page.Link{
		{Name: "logs", URL: console + "logs/query;query=" + url.PathEscape(query) + project},
		{Name: "Batch job", URL: console + "batch/jobsDetail/regions/" + location + "/jobs/" + job + "/details" +
			project},
	}
}
