package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// BusyError is the request of a target for a pause.
type BusyError struct {
	// After is the length of the pause; zero if unknown.
	After time.Duration
	// Code of the HTTP answer.
	Code int
}

// Error returns a text for the user.
func (e *BusyError) Error() string {
	if e.After == 0 {
		return fmt.Sprintf("it asks to wait (HTTP %d)", e.Code)
	}
	return fmt.Sprintf("it asks to wait %s (HTTP %d)", e.After, e.Code)
}

// LateError is the error for an answer whose beginning or end was late.
type LateError struct{ After time.Duration }

var _ net.Error = LateError{}

// Error returns a text for the user.
func (e LateError) Error() string { return fmt.Sprintf("no answer for %s", e.After) }

// Timeout implements net.Error.
func (LateError) Timeout() bool { return true }

// Temporary implements net.Error.
func (LateError) Temporary() bool { return false }

// IsSilent reports whether an error means a target without an answer, or its request for a pause.
func IsSilent(err error) bool {
	var unanswered *url.Error
	var late LateError
	return errors.As(err, &unanswered) || errors.As(err, &late) || apierrors.IsTooManyRequests(err)
}

// RefusesDryRuns reports whether a dry run was refused because an API server or a webhook supports none.
func RefusesDryRuns(err error) bool {
	text := err.Error()
	return apierrors.IsBadRequest(err) && (strings.Contains(text, "dry run") || strings.Contains(text, "dryRun"))
}

// RefusesWrite reports whether the target has refused a write and would refuse it again: the object is wrong, a
// webhook or a policy denies it, or a permission is missing. A conflict is no such refusal.
func RefusesWrite(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	passing := []int32{
		http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooManyRequests,
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && !slices.Contains(passing, code)
}
