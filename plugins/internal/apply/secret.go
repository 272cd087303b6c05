package apply

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// withoutValues returns an error about a request to write an object without the values of a Secret. When the API server
// cannot read a request, it may quote all of it. Other errors are returned as they are.
func withoutValues(key object.Key, err error) error {
	var status apierrors.APIStatus
	if key.Group != "" || key.Kind != "Secret" || !errors.As(err, &status) || !mayQuote(status.Status()) {
		return err
	}
	s := status.Status()
	s.Message = fmt.Sprintf("the API server cannot accept the Secret%s; "+
		"what it says is left out, because it may quote values: "+
		"all of data must be base64 and all of stringData text, so that numbers and booleans need quotes", fieldsOf(s))
	s.Details = nil
	return &apierrors.StatusError{ErrStatus: s}
}

// mayQuote tells whether an error may repeat values that were sent. Reasons that are not about the content do not, and
// neither do the findings of a validation: they have the kind, while an error about reading the request has not.
func mayQuote(s metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound,
		metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict, metav1.StatusReasonGone,
		metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable:
		return false
	case metav1.StatusReasonInvalid:
		return s.Details == nil || s.Details.Kind != "Secret"
	default:
		return true
	}
}

// fieldsOf returns the fields that an error is about, for a message; empty if it names none.
func fieldsOf(s metav1.Status) string {
	if s.Details == nil {
		return ""
	}
	var names []string
	for _, cause := range s.Details.Causes {
		if cause.Field != "" && cause.Field != "patch" {
			names = append(names, cause.Field)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}
