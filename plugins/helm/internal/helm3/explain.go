package helm3

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// explain makes an error of package helm, with the text of Helm. Its kind is that of the first failed step: an atomic
// operation goes on after it.
func (o *operation) explain(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	cause, otherwise := o.cause, helm.ClusterFailed
	if cause == nil {
		cause = err
		switch o.step {
		case rendering:
			otherwise = helm.RenderFailed
		case checking: // Helm has no other error here for an object of others
			otherwise = helm.OwnedByOthers
		default:
		}
	}
	e := &helm.Error{Kind: kindOf(cause, otherwise)}
	text := err.Error()
	if !strings.Contains(text, cause.Error()) { // Helm does not give its reason for a failed uninstallation
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

// advice names the template of the object in an error, and the options of the item against the error, if any.
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
