package prune

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failure is an error with its subject.
type failure struct {
	what string
	err  error
}

// ignoreGone returns nil for the error about a missing object.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil
	}
	return err
}

// notServed reports whether an error is about a kind not served, rather than a missing object: only the server of a
// kind answers about objects.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
