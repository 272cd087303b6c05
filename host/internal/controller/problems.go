package controller

import (
	"errors"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxEventReason and maxEventNote are the API server's limits for events.
	maxEventReason = 128
	maxEventNote   = 1024
)

// asError describes an error that the host itself met. Package target knows what its errors mean; any other is the API
// server's and is retried. Of several the first says what comes of them, and all are told.
func asError(operation string, err error) contract.Error {
	var contractErr contract.Error
	if errors.As(err, &contractErr) {
		return contractErr
	}
	e := contract.Error{Operation: operation, Reason: "HostError", Message: err.Error()}
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		e.Operation, e.Reason = contract.OperationResolve, string(targetErr.Reason)
		e.Terminal = targetErr.Reason == target.ReasonTargetNotFound // as upstream: no code, and final
		if code := targetErr.Code(); code != "" {
			e.Codes = []v1alpha1.ErrorCode{code}
		}
	}
	return e
}

// advise adds to an error of a deletion that cannot be carried out what the user can do about it. Such a deletion
// ends, because nothing can come of trying it again; it begins anew when what is missing comes back.
func (j *job) advise(e contract.Error) contract.Error {
	missing := e.Operation == contract.OperationResolve &&
		(e.Reason == contract.ReasonTargetNotFound || e.Reason == contract.ReasonContextNotFound)
	if !j.decision.Deletion || !missing {
		return e
	}
	e.Terminal = true
	e.Message += "; without it nothing can be deleted. Create it again, and the deletion goes on by itself; or " +
		leaveBehind
	return e
}

// ignoreMissing returns nil for an error that says that a Target or a Context is missing or wrong.
func ignoreMissing(err error) error {
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		return nil
	}
	return err
}

// event records an event of an item. The API server takes none with longer texts.
func (r *reconciler) event(item *v1alpha1.DeployItem, eventType, reason, message string) {
	r.recorder.Eventf(item, nil, eventType, contract.Cut(reason, maxEventReason), "ReconcileDeployItem",
		"%s", contract.Cut(message, maxEventNote))
}
