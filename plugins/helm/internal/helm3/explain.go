package helm3

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// explain makes the error of package helm of an error. Its text is that of Helm. Its kind goes by the first step
// that has failed, and not by what an atomic operation does after that.
func (o *operation) explain(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	cause, otherwise := o.cause, helm.ClusterFailed
	if cause == nil {
		cause = err
		switch o.step {
		case rendering:
			otherwise = helm.RenderFailed
		case checking: // Helm says in no other way that an object belongs to others
			otherwise = helm.OwnedByOthers
		default:
		}
	}
	e := &helm.Error{Kind: kindOf(cause, otherwise)}
	text := err.Error()
	if !strings.Contains(text, cause.Error()) { // Helm does not say why it cannot uninstall
		text += ": " + cause.Error()
	}
	if o.state != "" {
		text += ": " + o.state
	}
	text += o.advice(e.Kind, cause)
	if o.step > rendering {
		text = fmt.Sprintf("%s release %s: %s", o.req.Action, o.req.Release.Name, text)
	}
	e.Message = o.text(text, maxMessage)
	return e
}

// advice says where the object of an error comes from, and what to do about it if options of the deploy item can
// help.
func (o *operation) advice(kind helm.Kind, err error) string {
	if kind == helm.OwnedByOthers {
		return "; delete it, or set takeOwnership to take it over"
	}
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return ""
	}
	details := status.ErrStatus.Details
	switch template := o.templates[details.Kind+"/"+details.Name]; {
	case template != "":
		return "; it is from template " + template
	case !apierrors.IsNotFound(err) || details.Kind != "namespaces":
		return ""
	case details.Name == o.req.Release.Namespace && !o.req.CreateNamespace:
		return "; set createNamespace, or create the namespace"
	default:
		return "; create the namespace"
	}
}
