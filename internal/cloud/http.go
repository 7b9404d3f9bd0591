package cloud

import (
	"context"
	"net/http"

	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// HTTPClient returns a client for Google's services with the application default credentials and the scope. Without
// credentials the error is a *SetupError.
func HTTPClient(ctx context.Context, scope string) (*http.Client, error) {
	client, _, err := transport.NewClient(ctx, option.WithScopes(scope))
	if err != nil {
		return nil, Dial("Google Cloud", err)
	}
	return client, nil
}
