package cloud

import (
	"context"
	"net/http"

	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// HTTPClient makes requests to Google's services with the application default credentials and the scope. Without credentials
// it is a *SetupError.
func HTTPClient(ctx context.Context, scope string) (*http.Client, error) {
	client, _, err := transport.NewClient(ctx, option.WithScopes(scope))
	if err != nil {
		return nil, Dial("Google Cloud", err)
	}
	return client, nil
}
