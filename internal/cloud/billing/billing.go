// Package billing reads Compute Engine's prices from the Cloud Billing Catalog, and is the only importer of its client
// library.
//
// The catalogue lists some ten thousand SKUs, each a resource in some regions: an hour of an N2 vCPU, a GiB of its
// memory, a GiB-month of local SSD. A SKU's machine family is recognised by its description, with the texts in package
// machines.
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

	"coppice/internal/cloud"
	"coppice/internal/machines"
)

const service = "the Cloud Billing Catalog"

// computeEngine is the service whose SKUs are read.
const computeEngine = "services/6F81-5844-456A"

// Limits of a read. The catalogue has about ten pages.
const (
	pageSize  = 5000
	maxPages  = 200
	pageLimit = 60 * time.Second // per request
	retryFor  = 2 * time.Minute
)

// Client reads the catalogue. It is safe for concurrent use.
type Client struct {
	s     *cloudbilling.APIService
	pause time.Duration // before the first retry
}

// New connects with the application default credentials. endpoint, if not empty, is the URL of a stand-in on this
// machine, used without credentials. Missing credentials, and an endpoint that is not on this machine, are a
// *cloud.SetupError.
func New(ctx context.Context, endpoint string) (*Client, error) {
	var opts []option.ClientOption
	if endpoint != "" {
		if err := checkEndpoint(endpoint); err != nil {
			return nil, err
		}
		opts = append(opts, option.WithEndpoint(endpoint), option.WithoutAuthentication(),
			option.WithHTTPClient(&http.Client{Timeout: pageLimit}))
	}
	s, err := cloudbilling.NewService(ctx, opts...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	return &Client{s: s, pause: 500 * time.Millisecond}, nil
}

// endpointVariable is the environment variable with a stand-in's URL.
const endpointVariable = "COPPICE_BILLING_ENDPOINT"

// checkEndpoint accepts prices only from Google and from this machine.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return &cloud.SetupError{What: fmt.Sprintf("the endpoint %.100q is not a URL such as http://127.0.0.1:8080",
			endpoint),
			Hint: "fix or unset " + endpointVariable, Err: err}
	}
	return cloud.Loopback(endpointVariable, u.Host)
}

// Prices reads the whole catalogue. A family without prices for all of vCPU, memory and local SSD in a region is left
// out there; without regions, all are wanted. date is today, YYYY-MM-DD, for the prices' entries. An error returns no
// prices, since half a catalogue could pass for a whole one.
func (c *Client) Prices(ctx context.Context, regions []string, date string) (*machines.Prices, error) {
	f := newFinder(regions, date)
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
	return nil, fmt.Errorf(service+": it has more than %d pages", maxPages)
}

// page reads one page, with retries while the service fails.
func (c *Client) page(ctx context.Context, token string) (*cloudbilling.ListSkusResponse, error) {
	page, err := backoff.Retry(ctx, func() (*cloudbilling.ListSkusResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, pageLimit)
		defer cancel()
		list := c.s.Services.Skus.List(computeEngine).CurrencyCode("USD").PageSize(pageSize).PageToken(token)
		page, err := list.Context(ctx).Do()
		if err != nil && !passing(err) {
			return nil, backoff.Permanent(err)
		}
		return page, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: c.pause, RandomizationFactor: 0.3,
		Multiplier: 2, MaxInterval: 10 * time.Second}),
		backoff.WithMaxElapsedTime(retryFor))

	if err != nil {
		return nil, fail(err)
	}
	return page, nil
}

// passing reports whether an error may be temporary.
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
