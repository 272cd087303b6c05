package helm3

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// explain makes the error of package helm of an error. What has happened is known from errors of this package, from answers of the API
// server, or else from what Helm says of templates.
func (o *operation) explain(err error) error {
	e := o.describe(err)
	e.Message = shorten(o.secrecy.Hide(tidy(e.Message)), longestMessage)
	e.Log = o.journal.tail(e.Message)
	return e
}

func (o *operation) describe(err error) *helm.Error {
	var known *helm.Error
	behind := o.behind(err)
	// What has failed first is the cause, and what an atomic operation does after that is not.
	for _, cause := range slices.Concat(behind, []error{err}) {
		if errors.As(cause, &known) {
			e := *known
			e.Message = o.inContext(e.Kind, e.Message) + o.afterwards(behind)
			return &e
		}
	}
	text := tidy(err.Error())
	if place, ok := findTemplate(text); ok {
		e := &helm.Error{Kind: helm.RenderFailed, Template: place.template, Line: place.line, Message: o.inContext(helm.RenderFailed, place.text)}
		// A template that looks something up fails as the cluster does, and may succeed the next time.
		if len(behind) > 0 {
			e.Kind = kindOf(behind[0])
		}
		return e
	}
	kind := kindOf(err)
	if len(behind) > 0 && kind == helm.ClusterFailed {
		kind = kindOf(behind[0])
	}
	if isOwnedByOthers(text) {
		kind = helm.OwnedByOthers
		text += "; delete it, or set takeOwnership to take it over"
	}
	text += o.namespaceHint(text)
	template := o.templateOf(text)
	if template != "" {
		text += "; it is from template " + template
	}
	return &helm.Error{Kind: kind, Template: template, Message: o.inContext(kind, text) + o.afterwards(behind)}
}

// isOwnedByOthers goes by Helm's text, because it says it in no other way.
func isOwnedByOthers(text string) bool {
	return strings.Contains(text, "exists and cannot be imported into the current release: invalid ownership metadata")
}

var missingNamespace = regexp.MustCompile(`namespaces "([^"]+)" not found`)

// namespaceHint says what to do about a namespace that does not exist. Only that of the release can be created by an option.
func (o *operation) namespaceHint(text string) string {
	m := missingNamespace.FindStringSubmatch(text)
	switch {
	case m == nil:
		return ""
	case m[1] == o.req.Release.Namespace && !o.req.CreateNamespace:
		return "; set createNamespace, or create the namespace"
	default:
		return "; create the namespace"
	}
}

// kindOf tells what an answer of the API server means, as package target does.
func kindOf(err error) helm.Kind {
	var known *helm.Error
	reason := apierrors.ReasonForError(err)
	switch {
	case errors.As(err, &known):
		return known.Kind
	case reason == metav1.StatusReasonUnauthorized:
		return helm.Unauthorized
	case reason == metav1.StatusReasonInvalid, reason == metav1.StatusReasonBadRequest:
		return helm.Rejected
	case reason == metav1.StatusReasonAlreadyExists:
		return helm.OwnedByOthers
	case errors.Is(err, context.DeadlineExceeded):
		return helm.TimedOut
	default:
		return helm.ClusterFailed
	}
}

// inContext says what an error is about.
func (o *operation) inContext(kind helm.Kind, text string) string {
	switch kind {
	case helm.ChartInvalid, helm.ValuesInvalid, helm.RenderFailed, helm.LimitExceeded, helm.Refused:
		return text
	default:
	}
	name := o.req.Release.Name
	switch o.req.Action {
	case helm.Install, helm.Upgrade:
		return fmt.Sprintf("deploy release %s: %s", name, text)
	case helm.Uninstall:
		return fmt.Sprintf("uninstall release %s: %s", name, text)
	case helm.Render, helm.Values:
		return text
	default:
		return text
	}
}

// afterwards says what an atomic operation has done after its failure.
func (o *operation) afterwards(behind []error) string {
	h := o.stored()
	if !o.req.Options.Atomic || h == nil || o.req.Action == helm.Uninstall {
		return ""
	}
	second := ""
	if len(behind) > 1 {
		second = ": " + behind[len(behind)-1].Error()
	}
	running, what := h.current()
	all, err := h.revisions()
	switch {
	case err != nil || running == nil:
		return ""
	case len(all) == 0:
		return "; what was installed has been uninstalled, because atomic is set"
	case what == "delete":
		return "; to uninstall what was installed has failed as well" + second
	case !strings.HasPrefix(running.Info.Description, "Rollback to "):
		return "; there is no revision to roll back to, although atomic is set"
	case all[len(all)-1].Info.Status == release.StatusDeployed:
		return "; the release has been rolled back, because atomic is set"
	default:
		return "; the rollback has failed as well" + second
	}
}
