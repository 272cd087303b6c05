package apiserver

import (
	"context"
	"net/http"

	"github.com/pergola-deploy/pergola/sdk"
)

// ReasonNotPermitted is the reason of the refusal of changes before the pick-up of the job.
const ReasonNotPermitted = "NotPickedUp"

type permissionKey struct{}

// WithPermission returns a context whose requests ask for permission before a change of a target. Without permission
// such a request fails with an *sdk.Error with ReasonNotPermitted.
func WithPermission(ctx context.Context, ask func(context.Context) error) context.Context {
	return context.WithValue(ctx, permissionKey{}, ask)
}

func permitted(req *http.Request) error {
	ask, ok := req.Context().Value(permissionKey{}).(func(context.Context) error)
	if !ok || req.Method == http.MethodGet {
		return nil
	}
	if err := ask(req.Context()); err != nil {
		return &sdk.Error{Reason: ReasonNotPermitted, Err: err}
	}
	return nil
}
