package apply

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
)

// Reasons of the errors of writes, beside those of package target.
const (
	// ReasonImmutableField: the object cannot be changed to its manifest, but could be created from it.
	ReasonImmutableField = "ImmutableField"
	// ReasonFieldConflict: other field managers have applied fields with other values.
	ReasonFieldConflict = "FieldConflict"
	// ReasonNamesTaken: another CustomResourceDefinition has the names of this one.
	ReasonNamesTaken = "NamesNotAccepted"
	// ReasonNamespaceMissing: the namespace of the object does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonNamespaceTerminating: the namespace of the object is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// maxConflicts bounds the fields in a message about conflicts.
const maxConflicts = 10

// refusedCreation adds the remedy to an error about the namespace of an object. These errors have no code: another
// client may create the namespace while the job has time, and the objects applied before wait for it.
func refusedCreation(host string, i *desired.Object, err error) error {
	switch {
	case isNamespaceMissing(err):
		return &sdk.Error{Reason: ReasonNamespaceMissing, Err: fmt.Errorf(
			"namespace %s does not exist on target cluster %s; create it, or add it to the manifests: %w",
			i.Key.Namespace, host, err)}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &sdk.Error{Reason: ReasonNamespaceTerminating, Err: fmt.Errorf(
			"namespace %s of target cluster %s is being deleted; "+
				"wait until it is gone, and create it again or add it to the manifests: %w",
			i.Key.Namespace, host, err)}
	default:
		return refusedChange(i, err)
	}
}

// refusedChange adds the remedy to an error about conflicts with other field managers.
func refusedChange(i *desired.Object, err error) error {
	if !isFieldConflict(err) {
		return err
	}
	remedy := "leave them out of the manifest"
	if i.Settings != nil {
		remedy = fmt.Sprintf("leave them out of the manifest, or set force: true at %s to take them over", i.Settings)
	}
	return &sdk.Error{
		Codes:  sdk.ConfigurationError(ReasonFieldConflict, "").Codes,
		Reason: ReasonFieldConflict,
		Err:    &conflictError{remedy: remedy, cause: err},
	}
}

// conflictError names the fields and their managers from the details of the API server's error. The message of this
// error repeats them, and is left out.
type conflictError struct {
	remedy string
	cause  error
}

func (e *conflictError) Error() string {
	var conflicts []string
	for _, cause := range causes(e.cause) {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			conflicts = append(conflicts, cause.Field+": "+cause.Message)
		}
	}
	return fmt.Sprintf("others have applied fields with other values: %s; %s",
		object.Enumerate(conflicts, "; ", maxConflicts), e.remedy)
}

func (e *conflictError) Unwrap() error { return e.cause }

func isFieldConflict(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

func configurationError(reason string, err error) error {
	return sdk.ConfigurationError(reason, "%w", err)
}

// isNamespaceMissing reports whether an error is about a missing namespace, and not about a resource that is not
// served.
func isNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces"
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// isOutdated reports whether a write was refused because the object has changed, is gone, or is another one by now.
func isOutdated(err error) bool {
	anotherOne := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	return apierrors.IsNotFound(err) || (apierrors.IsConflict(err) && !isFieldConflict(err)) ||
		slices.ContainsFunc(causes(err), anotherOne)
}
