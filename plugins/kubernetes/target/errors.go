package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/httperror"
)

// Reasons of errors.
const (
	// ReasonUnauthorized: the target does not know the credentials.
	ReasonUnauthorized = httperror.ReasonUnauthorized
	// ReasonUnreachable: there was no answer from the target.
	ReasonUnreachable = httperror.ReasonUnreachable
	// ReasonBusy: the target asks for a pause.
	ReasonBusy = httperror.ReasonBusy
	// ReasonRejected: the target has found the object wrong.
	ReasonRejected = "ObjectRejected"
	// ReasonUnknownKind: the target does not serve the kind of the object.
	ReasonUnknownKind = "UnknownKind"
	// ReasonTarget: any other error of the target.
	ReasonTarget = httperror.ReasonTarget
)

// Explain returns err as an *sdk.Error for the target with the given host; nil for nil.
//
//   - 401: the credentials are wrong. ERR_UNAUTHORIZED, the job fails.
//   - 400 and 422: the API server finds the object wrong. ERR_CONFIGURATION_PROBLEM, the job fails; as a policy may be
//     the reason, a later one may not. The denial of a webhook counts only with one of these reasons, because they mean
//     the same.
//   - everything else may change without a change of the deploy item, such as a kind not served yet, missing
//     permissions, a missing namespace, a conflict, or an unreachable target. No code, the call is retried.
//
// The text of the wrapped error stays, but without the URL of an unanswered request: the host is enough.
func Explain(host string, err error) error {
	var known *sdk.Error
	var unanswered *url.Error
	var busy *apiserver.BusyError
	var late apiserver.LateError
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unanswered) && errors.As(unanswered.Err, &known): // the request was not permitted
		return known
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unanswered):
		return err
	case apierrors.IsUnauthorized(err):
		return &sdk.Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized},
			Reason: ReasonUnauthorized,
			Err:    fmt.Errorf("target cluster %s does not accept the credentials of the Target: %w", host, err),
		}
	case meta.IsNoMatchError(err):
		return &sdk.Error{Reason: ReasonUnknownKind, Err: fmt.Errorf("target cluster %s: %w", host, err)}
	case rejected(err):
		return Rejected(err)
	case errors.As(err, &busy):
		return &sdk.Error{
			Reason: ReasonBusy, Err: fmt.Errorf("target cluster %s: %w", host, busy), TargetSilent: true, RetryAfter: busy.After,
		}
	case errors.As(err, &status) && apierrors.IsTooManyRequests(err):
		if status.ErrStatus.Message == "" { // otherwise the text would end with the host
			err = &apiserver.BusyError{Code: int(status.ErrStatus.Code)}
		}
		return &sdk.Error{Reason: ReasonBusy, Err: fmt.Errorf("target cluster %s: %w", host, err), TargetSilent: true}
	case errors.As(err, &late):
		return &sdk.Error{
			Reason: ReasonUnreachable, Err: fmt.Errorf("cannot reach target cluster %s: %w", host, late), TargetSilent: true,
		}
	case errors.As(err, &unanswered):
		return &sdk.Error{
			Reason: ReasonUnreachable, TargetSilent: true,
			Err: fmt.Errorf("cannot reach target cluster %s: %w", host, unanswered.Err),
		}
	default:
		return &sdk.Error{Reason: ReasonTarget, Err: err}
	}
}

// ConcernsAll reports whether an error of a target makes all further requests to it vain: it does not answer, asks
// for a pause or does not know the credentials, or the call is over.
func ConcernsAll(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || apiserver.IsSilent(err) || apierrors.IsUnauthorized(err))
}

// GroupError is the error about a kind whose group has a server of its own, which does not answer the API server.
type GroupError struct {
	Group string
	Err   error
}

// Error returns a text for the user.
func (e *GroupError) Error() string {
	return fmt.Sprintf("discover API group %q: %v; check its APIService", e.Group, e.Err)
}

// Unwrap returns the answer of the API server.
func (e *GroupError) Unwrap() error { return e.Err }

// WithWaysOut adds to an error about a deletion the remedies for a lasting one, such as after the deletion of the
// target cluster; nil for nil. Errors about single objects stay as they are.
func WithWaysOut(err error) error {
	ofTargets := []string{ReasonUnauthorized, ReasonUnreachable, sdk.ReasonTargetMissing, sdk.ReasonTargetInvalid}
	var known *sdk.Error
	if !errors.As(err, &known) || !slices.Contains(ofTargets, known.Reason) {
		return err
	}
	return &sdk.Error{Operation: known.Operation, Reason: known.Reason, Err: fmt.Errorf(
		"%w; fix the Target; if its cluster no longer exists, annotate the deploy item with %s: %q "+
			"to delete it without its objects",
		err, v1alpha1.DeleteWithoutUninstallAnnotation, "true")}
}

// Rejected is the error about an object that the API server finds wrong.
func Rejected(err error) *sdk.Error {
	out := sdk.ConfigurationError(ReasonRejected, "%w", err)
	out.Heals = true
	return out
}

// rejected goes by the reason and not by the HTTP status: the denial of a webhook without its own reason has status
// 400 too, and may not come again.
func rejected(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonInvalid || reason == metav1.StatusReasonBadRequest
}

// maxListed bounds the number of errors in a message.
const maxListed = 20

// ObjectErrors is an error about several objects, with one error for each.
type ObjectErrors []error

// Collect returns the errors other than nil as one; nil if there are none.
func Collect(errs []error) error {
	var found ObjectErrors
	for _, err := range errs {
		if err != nil {
			found = append(found, err)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		return found
	}
}

// Error lists the first few errors and the number of further ones.
func (e ObjectErrors) Error() string {
	texts := make([]string, 0, len(e))
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return object.Enumerate(texts, "; ", maxListed)
}

// Unwrap returns all errors, so that the codes of all count.
func (e ObjectErrors) Unwrap() []error { return e }
