// Package billing reads Compute Engine's prices from the Cloud Billing Catalog, and is the only importer of its client library.
//
// The catalogue lists some ten thousand SKUs, each a resource in some regions: an hour of an N2 vCPU, a GiB of its memory, a GiB-month of
// local SSD. What belongs to a family of machines is told from a SKU's description, whose words package machines knows.
//
// Source: https://cloud.google.com/billing/v1/how-tos/catalog-api
package billing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"coppice/cloud"
	"coppice/machines"
)

const service = "the Cloud Billing Catalog"

// computeEngine is the service whose SKUs are read.
const computeEngine = "services/6F81-5844-456A"

// Bounds of a reading. The catalogue has about ten pages.
const (
	pageSize  = 5000
	maxPages  = 200
	pageLimit = 60 * time.Second // of one request
	retryFor  = 2 * time.Minute
)

// Client reads the catalogue. It may be used from any goroutine.
type Client struct {
	s     *cloudbilling.APIService
	pause time.Duration // before the first repetition
}

// New connects with the application default credentials. endpoint, when it is not empty, is the URL of a stand-in on this machine, which
// is spoken to without credentials. Missing credentials, and an endpoint that is not on this machine, are *cloud.SetupError.
func New(ctx context.Context, endpoint string) (*Client, error) {
	var opts []option.ClientOption
	if endpoint != "" {
		if err := checkEndpoint(endpoint); err != nil {
			return nil, err
		}
		opts = append(opts, option.WithEndpoint(endpoint), option.WithoutAuthentication(), option.WithHTTPClient(&http.Client{Timeout: pageLimit}))
	}
	s, err := cloudbilling.NewService(ctx, opts...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	return &Client{s: s, pause: 500 * time.Millisecond}, nil
}

// endpointVariable is what the launcher takes a stand-in's URL from.
const endpointVariable = "COPPICE_BILLING_ENDPOINT"

// checkEndpoint refuses to take prices from anybody but Google and this machine.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return &cloud.SetupError{What: fmt.Sprintf("the endpoint %.100q is no URL, such as http://127.0.0.1:8080", endpoint),
			Hint: "mend or unset " + endpointVariable, Err: err}
	}
	return cloud.Loopback(endpointVariable, u.Host)
}

// Request says which prices are wanted.
type Request struct {
	Families []machines.Family
	Regions  []string // none are all
	Date     string   // of today, YYYY-MM-DD, for the prices' entries
}

// Prices reads the whole catalogue. A family of which a region has not all of vCPU, memory and local SSD is left out there. An error
// leaves no prices: half a catalogue would pass for a whole one.
func (c *Client) Prices(ctx context.Context, q Request) (*machines.Prices, error) {
	f := newFinder(q)
	token, seen := "", 0
	for range maxPages {
		page, err := c.page(ctx, token)
		if err != nil {
			return nil, err
		}
		for _, sku := range page.Skus {
			if err := f.add(sku); err != nil {
				return nil, err
			}
		}

		seen += len(page.Skus)
		if token = page.NextPageToken; token == "" {
			return f.prices(seen)
		}
	}
	return nil, &CatalogError{fmt.Sprintf("it has more than %d pages", maxPages)}
}

// CatalogError is a catalogue in which prices cannot be found.
type CatalogError struct{ Msg string }

func (e *CatalogError) Error() string { return service + ": " + e.Msg }

// page reads one page, again while the service is out of order.
func (c *Client) page(ctx context.Context, token string) (*cloudbilling.ListSkusResponse, error) {
	page, err := backoff.Retry(ctx, func() (*cloudbilling.ListSkusResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, pageLimit)
		defer cancel()
		page, err := c.s.Services.Skus.List(computeEngine).CurrencyCode("USD").PageSize(pageSize).PageToken(token).Context(ctx).Do()
		if err != nil && !passing(err) {
			return nil, backoff.Permanent(err)
		}
		return page, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: c.pause, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 10 * time.Second}),
		backoff.WithMaxElapsedTime(retryFor))

	if err != nil {
		return nil, fail(err)
	}
	return page, nil
}

// passing says whether an error may be gone the next time.
func passing(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && (answer.Code == http.StatusTooManyRequests || answer.Code >= 500)
}

func fail(err error) error {
	if env := cloud.Environment(service, err); env != nil {
		return env
	}

	var answer *googleapi.Error
	if errors.As(err, &answer) {
		switch answer.Code {
		case http.StatusUnauthorized:
			return cloud.Unauthorized(service, err)
		case http.StatusForbidden:
			return cloud.Forbidden(service+" (cloudbilling.googleapis.com)", err)
		}
	}
	return fmt.Errorf("read %s: %w", service, err)
}
