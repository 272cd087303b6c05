package journal

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// Explain makes an error of package helm, with the text of Helm. Its kind is that of the first failed step: an atomic
// operation goes on after it.
func (j *Journal) Explain(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	cause, otherwise := j.cause, helm.ClusterFailed
	if cause == nil {
		cause = err
		switch j.step {
		case Rendering:
			otherwise = helm.RenderFailed
		case Checking: // Helm has no other error here for an object of others
			otherwise = helm.OwnedByOthers
		default:
		}
	}
	e := &helm.Error{Kind: KindOf(cause, otherwise)}
	text := err.Error()
	if !strings.Contains(text, cause.Error()) { // Helm does not give its reason for a failed uninstallation
		text += ": " + cause.Error()
	}
	if j.state != "" {
		text += ": " + j.state
	}
	text += j.advice(e.Kind, cause)
	if j.step > Rendering {
		text = fmt.Sprintf("%s release %s: %s", j.req.Action, j.req.Release.Name, text)
	}
	e.Message = j.text(text, maxMessage)
	return e
}

// advice names the template of the object in an error, and the options of the item against the error, if any.
func (j *Journal) advice(kind helm.Kind, err error) string {
	if kind == helm.OwnedByOthers {
		return "; " + helm.AdviceOnOwner
	}
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return ""
	}
	details := status.ErrStatus.Details
	switch template := j.templates[details.Kind+"/"+details.Name]; {
	case template != "":
		return "; it is from template " + template
	case !apierrors.IsNotFound(err) || details.Kind != "namespaces":
		return ""
	case details.Name == j.req.Release.Namespace && !j.req.CreateNamespace:
		return "; set createNamespace, or create the namespace"
	default:
		return "; create the namespace"
	}
}
