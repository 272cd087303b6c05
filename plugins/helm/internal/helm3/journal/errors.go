package journal

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// Failure returns an error of package helm.
func Failure(kind helm.Kind, format string, args ...any) error {
	return &helm.Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of an error, or else otherwise. The API server's answers mean the same as in package target.
func KindOf(err error, otherwise helm.Kind) helm.Kind {
	known := &helm.Error{}
	switch {
	case errors.As(err, &known):
		return known.Kind
	case wait.Interrupted(err):
		return helm.TimedOut
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return otherwise
	case apiserver.IsSilent(err):
		return helm.Unreachable
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnauthorized:
		return helm.Unauthorized
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest:
		return helm.Rejected
	case metav1.StatusReasonAlreadyExists:
		return helm.OwnedByOthers
	default:
	}
	if errors.As(err, new(apierrors.APIStatus)) {
		return helm.ClusterFailed
	}
	return otherwise
}
