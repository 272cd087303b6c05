package objectjob

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

// HideSecrets returns a context in which texts of API servers and webhooks show no values of the manifests' Secrets.
func HideSecrets(ctx context.Context, manifests []desired.Manifest) context.Context {
	return apiserver.WithHidden(ctx, func(text string) string {
		hidden := redact.New(nil)
		for _, m := range manifests {
			if m.Object.GetKind() == "Secret" && m.Object.GetAPIVersion() == "v1" {
				hidden.LearnSecret(m.Object.Object)
			}
		}
		return hidden.Hide(text)
	})
}

// WithFields returns a context for writes: with strict, they fail for fields unknown to the kind of the object.
// Otherwise the API server drops such fields and warns.
func WithFields(ctx context.Context, strict bool) context.Context {
	if strict {
		return apiserver.WithStrictFields(ctx)
	}
	return ctx
}
